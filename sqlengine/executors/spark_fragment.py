"""A part of a physical plan as one operator, so that a stage of Spark runs any number of nodes."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from parser.types import Schema
from planner.physical import Edge, PhysicalNode
from sqlengine.batch import MAX_WATERMARK, Batch, empty
from sqlengine.executors.build import OperatorFactory
from sqlengine.operators.base import ERROR_PORT, Context, Operator, Output
from sqlengine.state.table import KeyedTable

# An input of a node: its id and the port.
Input = tuple[str, int]


@dataclass(frozen=True)
class Fragment:
    """`nodes` in order, producers before consumers. Batches of input port i go to `inputs[i]`; edges that lead out of
    the fragment end in `outputs`, by port. `elsewhere` are inputs of its nodes that nothing in it feeds: other fragments
    do, and time does not wait for them here."""

    nodes: tuple[PhysicalNode, ...]
    inputs: tuple[Input, ...]
    outputs: Mapping[Input, int]
    elsewhere: tuple[Input, ...] = ()


class _Scoped:
    """One node's view of the fragment's context."""

    def __init__(self, node: str, context: Context) -> None:
        self.counters: Counter[str] = context.counters
        self.keeps = False
        self._node = node
        self._context = context

    def table(self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...]) -> KeyedTable:
        self.keeps = True
        return self._context.table(f"{self._node}/{name}", keys, values, exchange)


class FragmentOperator:
    """Pushes a batch through the nodes in topological order; dead letters of all of them leave by the error port."""

    def __init__(self, fragment: Fragment, factory: OperatorFactory) -> None:
        self._fragment = fragment
        self._factory = factory
        self._nodes = {n.id: n for n in fragment.nodes}
        self._ranks = {n.id: i for i, n in enumerate(fragment.nodes)}
        self._operators: dict[str, Operator] = {n.id: factory.build(n, None) for n in fragment.nodes}
        self._keeping: list[str] = []

    def open(self, context: Context) -> None:
        for name in self._operators:
            self._open(name, context)

    def renew(self, context: Context) -> None:
        """As if nothing had come yet: operators that keep something are built again, over tables of `context`."""
        keeping, self._keeping = self._keeping, []
        for name in keeping:
            self._operators[name].close()
            self._operators[name] = self._factory.build(self._nodes[name], None)
            self._open(name, context)
        for name, port in self._fragment.elsewhere:
            plan = self._nodes[name].plan
            self._operators[name].process(port, empty(plan.schema, watermark=MAX_WATERMARK))  # type: ignore[union-attr]

    def _open(self, name: str, context: Context) -> None:
        scoped = _Scoped(name, context)
        self._operators[name].open(scoped)
        if scoped.keeps:
            self._keeping.append(name)

    def process(self, port: int, batch: Batch) -> Output:
        first, first_port = self._fragment.inputs[port]
        waiting: dict[str, list[tuple[int, Batch]]] = {first: [(first_port, batch)]}
        queue = [(self._ranks[first], first)]
        output: Output = []
        while queue:
            _, name = heapq.heappop(queue)
            for in_port, part in waiting.pop(name):
                for out_port, result in self._operators[name].process(in_port, part):
                    if out_port == ERROR_PORT:
                        output.append((ERROR_PORT, result))
                        continue
                    for edge in self._nodes[name].edges.get(out_port, ()):
                        self._send(edge, result, waiting, queue, output)
        return output

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
            return
        if edge.target not in waiting:
            waiting[edge.target] = []
            heapq.heappush(queue, (self._ranks[edge.target], edge.target))
        waiting[edge.target].append((edge.target_port, batch))

    def close(self) -> None:
        for operator in self._operators.values():
            operator.close()
