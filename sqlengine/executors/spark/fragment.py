"""A fragment of a physical plan as one operator: all nodes of one stage of Spark."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from time import process_time

import numpy as np

from parser.types import Schema
from planner.graph.physical import Edge, PhysicalNode
from sqlengine.batch import MAX_WATERMARK, Batch, Writers, empty
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.containment import run_contained
from sqlengine.executors.dead_letters import with_source
from sqlengine.executors.measures.waiting import waiting_in
from sqlengine.executors.spark.tasks.steps import task_guard
from sqlengine.executors.spark.tasks.work import TaskWork
from sqlengine.executors.spark.worker import Counts
from sqlengine.operators.base import (
    ERROR_PORT,
    FATAL_ERROR_PORT,
    Context,
    Operator,
    Output,
    Timed,
)
from sqlengine.operators.rules import RulesOperator
from sqlengine.state.table import KeyedTable

# An input of a node: the node's id and the port.
NodeInput = tuple[str, int]


@dataclass(frozen=True)
class Fragment:
    """The nodes of one stage, producers before consumers.

    Batches of input port i go to `inputs[i]`. Edges out of the fragment end at the ports of
    `outputs`. `fed_elsewhere`: inputs that other fragments feed, so that watermarks do not wait for
    them here. `single`: nodes without keys, whose rows are all in bucket 0. `created`: the graph
    version that created each node with tables. `scan`: the one from which all its rows come, None
    where there are several. `shared`: sinks to which several jobs write."""

    nodes: tuple[PhysicalNode, ...]
    inputs: Mapping[int, NodeInput]
    outputs: Mapping[NodeInput, int]
    fed_elsewhere: tuple[NodeInput, ...] = ()
    single: frozenset[str] = frozenset()
    created: Mapping[str, int] = field(default_factory=dict)
    scan: PhysicalNode | None = None
    shared: frozenset[str] = frozenset()


class _Scoped:
    """The fragment's context as one node sees it: its tables have the full names that they have in
    the embedded executor."""

    def __init__(self, node: str, created_at_version: int, context: Context) -> None:
        self.counters: Counter[str] = Counter()
        self.tables: dict[str, KeyedTable] = {}
        self._owner = f"{node}@{created_at_version}"
        self._context = context

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        full = f"{self._owner}/{name}"
        self.tables[name] = table = self._context.table(full, keys, values, exchange)
        return table

    def check_step(self) -> None:
        task_guard().check()

    def charge(self, rows: Mapping[str, int]) -> None:
        task_guard().charge(rows)


def by_tests(
    operator: RulesOperator, seconds: float, tested: Mapping[str, int]
) -> Iterator[tuple[str, float]]:
    """Yields the seconds of each job of a set of rules, by the rows `tested` meanwhile for each
    rule.

    Rows that an index excludes cost next to nothing, and are not counted."""
    total = sum(tested.values())
    for rule, rows in tested.items():
        planned = operator.compiled.plan.rules.get(rule)
        for job in planned.owners if planned is not None else ():
            yield job, seconds * rows / total


class FragmentOperator:
    """Pushes batches through the nodes of a fragment in topological order.

    Rows in error of all nodes leave by the error ports, also those for which an operator raises.
    Only the partition with bucket 0 (`first`) has rows of `single` nodes; in all others they only
    forward watermarks. OperatorFailed where an operator with state raises."""

    def __init__(self, fragment: Fragment, factory: OperatorFactory, first: bool = True) -> None:
        self._fragment = fragment
        self._factory = factory
        self._nodes = {n.id: n for n in fragment.nodes}
        self._ranks = {n.id: i for i, n in enumerate(fragment.nodes)}
        self._operators: dict[str, Operator] = {
            n.id: factory.build(n, None) for n in fragment.nodes
        }
        self._tables: dict[str, dict[str, KeyedTable]] = {}  # of the nodes with state
        self._seconds: dict[str, float] = {}  # by node
        self._counters: dict[str, Counter[str]] = {}
        self._rows: Counter[str] = Counter()
        self._watermarks_only = frozenset() if first else fragment.single

    def open(self, context: Context) -> None:
        for name in self._operators:
            self._open(name, context)

    def reset(self, context: Context) -> None:
        """Makes the fragment as if it had seen nothing: builds operators with state again, over the
        tables of `context`."""
        stateful, self._tables = self._tables, {}
        for name in stateful:
            self._operators[name].close()
            self._operators[name] = self._factory.build(self._nodes[name], None)
            self._open(name, context)
        for name, port in self._fragment.fed_elsewhere:
            plan = self._nodes[name].plan
            list(self._operators[name].process(port, empty(plan.schema, watermark=MAX_WATERMARK)))  # type: ignore[union-attr]

    def _open(self, name: str, context: Context) -> None:
        scoped = _Scoped(name, self._fragment.created.get(name, 0), context)
        self._operators[name].open(scoped)
        scoped.counters.update(self._counters.get(name, {}))  # those before `reset`
        self._counters[name] = scoped.counters
        if scoped.tables:
            self._tables[name] = scoped.tables

    def process(self, port: int, batch: Batch) -> Output:
        return self.push([(port, batch)])

    def push(self, inputs: Sequence[tuple[int, Batch]]) -> Output:
        """Processes the batches of several ports as one step: each node sees all its input at once,
        as in one process."""
        waiting: dict[str, list[tuple[int, Batch]]] = {}
        queue: list[tuple[int, str]] = []
        for port, batch in inputs:
            self._enqueue(self._fragment.inputs[port], batch, waiting, queue)
        output: Output = []
        while queue:
            _, name = heapq.heappop(queue)
            for out_port, result in self._process(name, waiting.pop(name)):
                if out_port in (ERROR_PORT, FATAL_ERROR_PORT):
                    letters = with_source(result, self._nodes[name], self._fragment.scan)
                    output.append((out_port, letters))
                    continue
                for edge in self._nodes[name].edges.get(out_port, ()):
                    self._send(edge, result, waiting, queue, output)
        return output

    def _process(self, name: str, parts: Sequence[tuple[int, Batch]]) -> Output:
        began = process_time()
        output = self._run(self._nodes[name], parts)
        self._seconds[name] = self._seconds.get(name, 0.0) + process_time() - began
        if name not in self._watermarks_only:
            return output
        return [
            (to, made.tick(made.schema))
            for to, made in output
            if to not in (ERROR_PORT, FATAL_ERROR_PORT)
        ]

    def _run(self, node: PhysicalNode, parts: Sequence[tuple[int, Batch]]) -> Output:
        guard, output = task_guard(), []
        outer = guard.enter(node)
        streams = run_contained(node, self._operators[node.id], node.id in self._tables, parts)
        try:
            for made in chain.from_iterable(streams):
                guard.emitted(made[1].num_rows)
                output.append(made)
                guard.resume()
            guard.leave(outer)
        except BaseException:
            guard.interrupts.permitted = False  # a call could be interrupted before it
            guard.interrupts.take_back()
            raise
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
            if edge.job is not None:
                if edge.counted:
                    self._rows[edge.job] += batch.num_rows
                if edge.target in self._fragment.shared:
                    of = np.zeros(batch.num_rows, np.int64)
                    batch = replace(batch, writers=Writers((edge.job,), of))
            output.append((port, batch))
        else:
            self._enqueue((edge.target, edge.target_port), batch, waiting, queue)

    def take_counts(self) -> Counts:
        """See `Keyed`."""
        for operator in self._operators.values():
            if isinstance(operator, RulesOperator):
                self._rows.update(operator.rows_by_job)
                operator.rows_by_job.clear()
        timers = (o.timer() for o in self._operators.values() if isinstance(o, Timed))
        counts = Counts(
            rows=dict(self._rows),
            nodes={n: dict(c) for n, c in self._counters.items() if c},
            timer=min((t for t in timers if t is not None), default=None),
            work=self._work(),
        )
        for counter in (self._rows, *self._counters.values()):
            counter.clear()
        return counts

    def _work(self) -> TaskWork:
        """Returns what operators have cost since the last call, and what waits in their tables."""
        seconds, self._seconds = self._seconds, {}
        own: dict[str, float] = {}
        for name, operator in self._operators.items():
            if isinstance(operator, RulesOperator) and operator.tested:
                for job, part in by_tests(operator, seconds.pop(name, 0.0), operator.tested):
                    own[job] = own.get(job, 0.0) + part
                operator.tested.clear()
        found = {n: waiting_in(self._nodes[n], tables) for n, tables in self._tables.items()}
        waiting = {n: waits for n, waits in found.items() if waits is not None}
        return TaskWork(seconds=seconds, own=own, waiting=waiting)

    def _enqueue(
        self,
        at: NodeInput,
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
