"""Runs a physical plan in this process: batches are pushed through the operators in topological
order."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

import pyarrow as pa

from parser.errors import ServiceError
from parser.types import Schema
from planner.graph.physical import PhysicalNode, PhysicalPlan
from sqlengine.batch import Batch, together
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.containment import run_contained
from sqlengine.executors.dead_letters import with_source
from sqlengine.operators.base import (
    ERROR_PORT,
    GIVE_UP_PORT,
    Operator,
    Output,
    StateSuccessor,
    Timed,
)
from sqlengine.operators.rules import RulesOperator
from sqlengine.state.table import KeyedTable

# As many rows of one operator may wait for the next ones.
_ROWS = 1 << 18

SinkWrite = Callable[[str, Batch], None]


class NodeContext:
    """What one operator gets: its counters, and tables that live as long as its node does. `born`,
    the graph's version that the node came with, is part of their names: a node that goes and comes
    again has nothing of its old ones. `inherited`: tables of another node, by their own names, that
    are this one's from now on."""

    def __init__(
        self,
        node: str,
        born: int,
        tables: dict[str, KeyedTable],
        restored: Mapping[str, pa.Table],
        inherited: Mapping[str, KeyedTable] | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.stateful = False
        self._owner = f"{node}@{born}"
        self._tables = tables
        self._names: list[str] = []
        self._restored = restored
        self._inherited = dict(inherited or {})

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        """The operator's table; filled from what was restored under its name, if anything was."""
        self.stateful = True
        full = f"{self._owner}/{name}"
        if full not in self._tables:
            table = self._inherited.pop(name, None) or KeyedTable(full, keys, values, exchange)
            table.name = full
            self._tables[full] = table
            self._names.append(full)
            if full in self._restored:
                table.load(self._restored[full])
        return self._tables[full]

    def check_complete(self) -> None:
        """ServiceError where the operator keeps other tables than those that were restored: rows
        would be lost in silence."""
        stored = {name for name in self._restored if name.startswith(f"{self._owner}/")}
        for name in sorted(stored.symmetric_difference(self._names)):
            raise ServiceError(
                f"state of table '{name}' is"
                f" {'stored, but kept no more' if name in stored else 'not stored'}",
                detail="the checkpoint was written by a version whose operators keep other state",
                hint="start the version that wrote the data folder, or begin with an empty one",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Those of its tables, in full."""
        return tuple(self._names)

    def release(self) -> dict[str, KeyedTable]:
        """The node goes, and another takes its tables up."""
        return {name.split("/", 1)[1]: self._tables.pop(name) for name in self._names}

    def copy(self) -> dict[str, KeyedTable]:
        """The same for a node that stays."""
        return {name.split("/", 1)[1]: self._tables[name].copy() for name in self._names}

    def drop(self) -> None:
        """The node goes, and its tables with it."""
        for name in self._names:
            self._tables.pop(name, None)


@dataclass
class RunningNode:
    """An operator, and the node that says where its output goes."""

    node: PhysicalNode
    operator: Operator
    context: NodeContext


@dataclass
class PreparedPlan:
    """A plan made ready beside the stream; `switch` puts it in place between two epochs."""

    plan: PhysicalPlan
    operators: dict[str, Operator] = field(default_factory=dict)


class EmbeddedExecutor:
    """One per graph. `prepare` may run in any thread, everything else in the graph's."""

    def __init__(self, factory: OperatorFactory) -> None:
        self.factory = factory
        self.plan = PhysicalPlan()
        self.running: dict[str, RunningNode] = {}
        self.tables: dict[str, KeyedTable] = {}
        self.errors: Output = []
        self.seconds: defaultdict[str, float] = defaultdict(
            float
        )  # seconds by node, with its rows on their way to sinks
        self._rows: Counter[str] = Counter()
        self._timed: list[Timed] = []
        self._buffered: dict[str, list[tuple[int, Batch]]] = {}
        self._buffered_rows = 0

    def prepare(self, plan: PhysicalPlan) -> PreparedPlan:
        """Builds the operators that the plan needs and that are not running as they are: patterns
        compile here."""
        prepared = PreparedPlan(plan)
        for node in self._changed_nodes(plan):
            held = self.running.get(node.id)
            if held is None or not self.factory.reusable(held.node, node):
                prepared.operators[node.id] = self.factory.build(
                    node, held.operator if held else None
                )
        return prepared

    def switch(
        self,
        prepared: PreparedPlan,
        restored: Mapping[str, pa.Table] | None = None,
        born: Mapping[str, int] | None = None,
        inherited: Mapping[str, str] | None = None,
    ) -> None:
        """Puts a prepared plan in place: operators that stay keep their tables, those that go are
        closed and their tables dropped, new ones are opened (over `restored` tables of nodes `born`
        earlier, if there are any, or over the tables `inherited` of another node)."""
        births, plan = born or {}, prepared.plan
        taken = self._inherited_tables(plan, inherited or {})
        for name in [n for n in self.plan.nodes.difference(plan.nodes) if n not in plan.nodes]:
            gone = self.running.pop(name)
            self.seconds.pop(name, None)
            self._retire(gone)
            gone.context.drop()
        for node in self._changed_nodes(plan):
            held, new = self.running.get(node.id), prepared.operators.get(node.id)
            if held is not None and new is not None:
                self._retire(held)
            birth = births.get(node.id, plan.version)
            context = held.context if held else self._context(node.id, birth, restored, taken)
            operator = new or (held.operator if held else self.factory.build(node, None))
            if held is None or new is not None:
                operator.open(context)
            if held is None and node.id in births:
                context.check_complete()
            self.running[node.id] = RunningNode(node, operator, context)
        self.plan = plan
        self._timed = [n.operator for n in self.running.values() if isinstance(n.operator, Timed)]
        for heir in (
            [n.operator for n in self.running.values() if isinstance(n.operator, StateSuccessor)]
            if inherited
            else ()
        ):
            heir.on_state_takeover(inherited or {}, plan.version)

    def _context(
        self,
        node: str,
        birth: int,
        restored: Mapping[str, pa.Table] | None,
        taken: Mapping[str, Mapping[str, KeyedTable]],
    ) -> NodeContext:
        return NodeContext(node, birth, self.tables, restored or {}, taken.get(node))

    def _inherited_tables(
        self, plan: PhysicalPlan, inherited: Mapping[str, str]
    ) -> dict[str, dict[str, KeyedTable]]:
        """The tables that new nodes take up: those of a node that goes are theirs, of one that
        stays they have copies."""
        taken: dict[str, dict[str, KeyedTable]] = {}
        last = {source: node for node, source in inherited.items() if source not in plan.nodes}
        for node, source in inherited.items():
            if last.get(source) != node:
                taken[node] = self.running[source].context.copy()
        return taken | {
            node: self.running[source].context.release() for source, node in last.items()
        }

    def tables_of(self, node: str) -> dict[str, KeyedTable]:
        """The tables of a node by the operator's names for them; none of one that keeps none, or
        does not run itself."""
        names = self.running[node].context.names if node in self.running else ()
        return {n.split("/", 1)[1]: self.tables[n] for n in names}

    def layouts(self, node: str) -> dict[str, str]:
        """The layout of each table of a running node, by the table's name."""
        return {name: table.layout for name, table in self.tables_of(node).items()}

    def next_timer(self) -> int | None:
        """The processing time at which an operator wants a tick; None where none waits for any."""
        return min((t for t in (o.timer() for o in self._timed) if t is not None), default=None)

    def _changed_nodes(self, plan: PhysicalPlan) -> list[PhysicalNode]:
        """The nodes of the plan that are not those of the one that runs, in order."""
        names = plan.nodes.difference(self.plan.nodes)
        return sorted((plan.nodes[n] for n in names if n in plan.nodes), key=lambda n: n.rank)

    def created_at_version(self) -> dict[str, int]:
        """The graph's version with which each node that has tables came."""
        owners = (name.split("/", 1)[0].split("@", 1) for name in self.tables)
        return {node: int(born) for node, born in owners}

    def push(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to input 0 of `node` and everything that comes of it to the nodes behind;
        rows for sinks go to `write`, dead letters to `self.errors`. Nodes work in topological
        order, so each sees its inputs complete; those that are held wait for `flush`, or until
        many rows do."""
        self._work(node, {node: [(0, batch)]}, [(self.running[node].node.rank, node)], write)
        if self._buffered_rows >= _ROWS:
            self.flush(write)

    def flush(self, write: SinkWrite) -> None:
        """Gives nodes that are held what has come to them since the last call, together: with state
        they `gather` it, and without they take few batches of many rows."""
        while self._buffered:
            rank, name = min((self.running[n].node.rank, n) for n in self._buffered)
            parts = self._buffered.pop(name)
            if not self.running[name].context.stateful:
                parts = [(0, batch) for batch in together([b for _, b in parts])]
            self._work(name, {name: parts}, [(rank, name)], write)
        self._buffered_rows = 0

    def push_output(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """The same for the nodes behind `node`, as if the batch had come out of it."""
        waiting: dict[str, list[tuple[int, Batch]]] = {}
        queue: list[tuple[int, str]] = []
        self._route(self.running[node], 0, batch, waiting, queue, write)
        self._work(node, waiting, queue, write)

    def _work(
        self,
        source: str,
        waiting: dict[str, list[tuple[int, Batch]]],
        queue: list[tuple[int, str]],
        write: SinkWrite,
    ) -> None:
        """Takes what waits, first what stands first. Where much comes of a batch, the nodes behind
        take it as it comes, as if it were of several batches."""
        while queue:
            _, name = heapq.heappop(queue)
            current = self.running[name]
            rows, began = 0, perf_counter()
            for done in run_contained(
                current.node, current.operator, current.context.stateful, waiting.pop(name)
            ):
                for out_port, result in done:
                    if rows >= _ROWS:
                        self._work(source, waiting, queue, write)
                        rows = 0
                    rows += result.num_rows
                    if out_port in (ERROR_PORT, GIVE_UP_PORT):
                        self.errors.append(
                            (out_port, with_source(result, current.node, self.running[source].node))
                        )
                    else:
                        self._route(current, out_port, result, waiting, queue, write)
            self.seconds[name] += perf_counter() - began

    def _route(
        self,
        source: RunningNode,
        port: int,
        batch: Batch,
        waiting: dict[str, list[tuple[int, Batch]]],
        queue: list[tuple[int, str]],
        write: SinkWrite,
    ) -> None:
        for edge in source.node.edges.get(port, ()):
            target = self.running.get(edge.target)
            if target is None:  # a sink
                if batch.num_rows:
                    write(edge.target, batch)
                    if edge.job is not None:
                        self._rows[edge.job] += batch.num_rows
                continue
            if target.node.held:
                self._buffered.setdefault(edge.target, []).append((edge.target_port, batch))
                self._buffered_rows += batch.num_rows
                continue
            if edge.target not in waiting:
                waiting[edge.target] = []
                heapq.heappush(queue, (target.node.rank, edge.target))
            waiting[edge.target].append((edge.target_port, batch))

    def rows_by_job(self) -> Counter[str]:
        """Rows given to sinks so far, by job: those of rules, and those of other operators that one
        job owns."""
        rows = Counter(self._rows)
        for node in list(self.running.values()):
            if isinstance(node.operator, RulesOperator):
                rows.update(dict(node.operator.rows_by_job))  # a copy: the graph's thread counts on
        return rows

    def _retire(self, node: RunningNode) -> None:
        """What an operator has counted outlives it."""
        if isinstance(node.operator, RulesOperator):
            self._rows.update(node.operator.rows_by_job)
        node.operator.close()

    def take_errors(self) -> Output:
        """What left by the ports of errors since the last call."""
        errors, self.errors = self.errors, []
        return errors

    def close(self) -> None:
        for node in self.running.values():
            node.operator.close()
