"""A part of a physical plan as one operator, so that a stage of Spark runs any number of nodes."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parser.types import Schema
from planner.graph.physical import Edge, PhysicalNode
from sqlengine.batch import MAX_WATERMARK, Batch, empty
from sqlengine.executors.build import OperatorFactory
from sqlengine.operators.base import (
    ERROR_PORT,
    GIVE_UP_PORT,
    Context,
    Operator,
    Output,
    Timed,
    outputs,
)
from sqlengine.state.table import KeyedTable

# An input of a node: its id and the port.
Input = tuple[str, int]


@dataclass(frozen=True)
class Fragment:
    """`nodes` in order, producers before consumers. Batches of input port i go to `inputs[i]`;
    edges that lead out of the fragment end in `outputs`, by port. `elsewhere` are inputs of its
    nodes that nothing in it feeds: other fragments do, and time does not wait for them here.
    `single` are nodes that have all their rows in one bucket."""

    nodes: tuple[PhysicalNode, ...]
    inputs: Mapping[int, Input]
    outputs: Mapping[Input, int]
    elsewhere: tuple[Input, ...] = ()
    single: frozenset[str] = frozenset()


class _Scoped:
    """One node's view of the fragment's context."""

    def __init__(self, node: str, context: Context) -> None:
        self.counters: Counter[str] = context.counters
        self.keeps = False
        self._node = node
        self._context = context

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        self.keeps = True
        return self._context.table(f"{self._node}/{name}", keys, values, exchange)


class FragmentOperator:
    """Pushes batches through the nodes in topological order; dead letters of all of them leave by
    the ports of errors. Only the instance that holds bucket 0 (`first`) has rows of `single` nodes,
    in all others time alone passes them."""

    def __init__(self, fragment: Fragment, factory: OperatorFactory, first: bool = True) -> None:
        self._fragment = fragment
        self._factory = factory
        self._nodes = {n.id: n for n in fragment.nodes}
        self._ranks = {n.id: i for i, n in enumerate(fragment.nodes)}
        self._operators: dict[str, Operator] = {
            n.id: factory.build(n, None) for n in fragment.nodes
        }
        self._keeping: list[str] = []
        self._idle = frozenset() if first else fragment.single

    def open(self, context: Context) -> None:
        for name in self._operators:
            self._open(name, context)

    @property
    def waits(self) -> bool:
        """Whether one of its operators may wait for processing time."""
        return any(isinstance(o, Timed) for o in self._operators.values())

    def renew(self, context: Context) -> None:
        """As if nothing had come yet: operators that keep something are built again, over tables of
        `context`."""
        keeping, self._keeping = self._keeping, []
        for name in keeping:
            self._operators[name].close()
            self._operators[name] = self._factory.build(self._nodes[name], None)
            self._open(name, context)
        for name, port in self._fragment.elsewhere:
            plan = self._nodes[name].plan
            list(self._operators[name].process(port, empty(plan.schema, watermark=MAX_WATERMARK)))  # type: ignore[union-attr]

    def _open(self, name: str, context: Context) -> None:
        scoped = _Scoped(name, context)
        self._operators[name].open(scoped)
        if scoped.keeps:
            self._keeping.append(name)

    def process(self, port: int, batch: Batch) -> Output:
        return self.push([(port, batch)])

    def push(self, inputs: Sequence[tuple[int, Batch]]) -> Output:
        """Takes batches of several ports as one step: each node sees all that comes to it, as in
        one process."""
        waiting: dict[str, list[tuple[int, Batch]]] = {}
        queue: list[tuple[int, str]] = []
        for port, batch in inputs:
            self._enqueue(self._fragment.inputs[port], batch, waiting, queue)
        output: Output = []
        while queue:
            _, name = heapq.heappop(queue)
            for out_port, result in self._process(name, waiting.pop(name)):
                if out_port in (ERROR_PORT, GIVE_UP_PORT):
                    output.append((out_port, result))
                    continue
                for edge in self._nodes[name].edges.get(out_port, ()):
                    self._send(edge, result, waiting, queue, output)
        return output

    def _process(self, name: str, parts: Sequence[tuple[int, Batch]]) -> Output:
        output = [made for stream in outputs(self._operators[name], parts) for made in stream]
        if name not in self._idle:
            return output
        return [
            (to, made.tick(made.schema))
            for to, made in output
            if to not in (ERROR_PORT, GIVE_UP_PORT)
        ]

    def _send(
        self,
        edge: Edge,
        batch: Batch,
        waiting: dict[str, list[tuple[int, Batch]]],
        queue: list[tuple[int, str]],
        output: Output,
    ) -> None:
        port = self._fragment.outputs.get((edge.target, edge.target_port))
        if port is not None:
            output.append((port, batch))
        else:
            self._enqueue((edge.target, edge.target_port), batch, waiting, queue)

    def _enqueue(
        self,
        at: Input,
        batch: Batch,
        waiting: dict[str, list[tuple[int, Batch]]],
        queue: list[tuple[int, str]],
    ) -> None:
        name, port = at
        if name not in waiting:
            waiting[name] = []
            heapq.heappush(queue, (self._ranks[name], name))
        waiting[name].append((port, batch))

    def close(self) -> None:
        for operator in self._operators.values():
            operator.close()
