"""Runs a physical plan in this process: pushes batches through its operators in topological
order."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from planner.graph.families import Family, FamilyPlan, with_families
from planner.graph.family_members import FAMILY
from planner.graph.physical import PhysicalNode, PhysicalPlan
from planner.graph.scan_filters import scan_filters
from planner.logical import LogicalPlan, Scan
from planner.scalar import Scalar
from sqlengine.batch import Batch, Writers, empty, merge_runs
from sqlengine.connectors.base import Chunk, Source
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.containment import PortBatch, run_contained
from sqlengine.executors.dead_letters import with_source
from sqlengine.executors.epochs import EpochRecord, Resumption
from sqlengine.executors.failures import FamilyFailed, OperatorFailed
from sqlengine.executors.measures.waiting import Waiting, waiting_in, waiting_of_members
from sqlengine.executors.node_state.family_state import (
    Arrivals,
    MemberShares,
    absorb_member,
    arrivals,
    leave,
    single_table,
)
from sqlengine.executors.node_state.node_context import NodeContext, creation_version, local_name
from sqlengine.executors.sources import RunningSource
from sqlengine.executors.spark.task_state import TaskState
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.executors.ticks.earliest import Earliest
from sqlengine.executors.ticks.resting import Resting
from sqlengine.operators.base import (
    ERROR_PORT,
    FATAL_ERROR_PORT,
    Operator,
    Output,
    StateSuccessor,
    Timed,
)
from sqlengine.operators.firing_steps import FiresInSteps, FiringLimit
from sqlengine.operators.late_rows import LATE_ROWS
from sqlengine.operators.rules import RulesOperator
from sqlengine.state.table import KeyedTable

# Rows of one operator's output, or of all buffered inputs, that wait at most: long ones count as
# several, one for each so many bytes (as a power of two).
_ROWS = 1 << 18
_ROW_BITS = 8

SinkWrite = Callable[[str, Batch], None]
# The counter of parts of files that were not read.
PRUNED: Final = "row_groups_pruned"


@dataclass
class RunningNode:
    """An operator with its node, which says where its output goes."""

    node: PhysicalNode
    operator: Operator
    context: NodeContext


@dataclass
class PreparedPlan:
    """A plan prepared beside the stream, with the operators to add or replace. `run`: the plan with
    its families, which is what runs."""

    plan: PhysicalPlan
    run: FamilyPlan
    operators: dict[str, Operator] = field(default_factory=dict)

    @property
    def new_nodes(self) -> list[str]:
        """The nodes of `plan` with an operator to add or replace, without those of families."""
        return [name for name in self.operators if name in self.plan.nodes]


@dataclass(frozen=True)
class InitialState:
    """The state with which new nodes of a plan start.

    `tables`: rows by full table name, and `created_at_version`: the graph version that created each
    node which they belong to. `inherited`: new nodes that take over the tables of an old one."""

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    created_at_version: Mapping[str, int] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WaitingInput:
    """The input that waits for nodes behind `source`. `queue`: these nodes, a heap by rank. Rows
    for sinks go to `write`."""

    source: str
    write: SinkWrite
    inputs: dict[str, list[PortBatch]] = field(default_factory=dict)
    queue: list[tuple[int, str]] = field(default_factory=list)

    def add(self, node: PhysicalNode, port: int, batch: Batch) -> None:
        """Adds input of a node."""
        if node.id not in self.inputs:
            self.inputs[node.id] = []
            # Queued once, with its first input: by the order of ranks all producers have run when
            # it is popped.
            heapq.heappush(self.queue, (node.rank, node.id))
        self.inputs[node.id].append((port, batch))


_EMPTY = InitialState()
_TakenOver = Mapping[str, Mapping[str, KeyedTable]]


class EmbeddedExecutor:
    """The operators and tables of one graph. `prepare` may run in any thread, everything else in
    the graph's.

    `running`: operators by node. `tables`: all state by full table name. `errors`: rows in error
    since the last `take_errors`. `guard`: knows which node runs, and ends a step that must
    not go on. `seconds`: its time of each node. `in_tasks`: tasks of Spark have the state. `run`:
    the plan with families, by whose nodes all that is named here goes; `plan` has those of jobs.
    `scan_filters`: what sources are told of the rows that are wanted, by scan; none of them is,
    unless the executor `filters`."""

    in_tasks: ClassVar[bool] = False
    has_families: ClassVar[bool] = True

    def __init__(
        self, factory: OperatorFactory, guard: StepGuard | None = None, *, filters: bool = True
    ) -> None:
        self.factory = factory
        self._filters = filters
        self.scan_filters: Mapping[str, Scalar] = {}
        self.guard = guard or StepGuard()
        self.seconds = self.guard.seconds
        self.plan = PhysicalPlan()
        self.run = FamilyPlan()
        self.running: dict[str, RunningNode] = {}
        self.firing = FiringLimit()
        self.tables: dict[str, KeyedTable] = {}
        self.errors: Output = []
        # Counters of nodes that are gone.
        self.retired: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        # By node: the late rows that are in `_late` already, since its jobs have changed.
        self._settled: dict[str, int] = {}
        self._shares = MemberShares()
        self.resting = Resting(self.running)
        # Operators with timers, the next timer of each, and those that have run since that was
        # looked up.
        self._timed: dict[str, Timed] = {}
        self._timers = Earliest[str]()
        self._changed_timers: set[str] = set()
        # Input of nodes that take an epoch's batches together, until `flush`.
        self._buffered: dict[str, list[PortBatch]] = {}
        self._buffered_rows = 0

    # ---- changes of the plan ---------------------------------------------------------------------

    def prepare(self, plan: PhysicalPlan) -> PreparedPlan:
        """Builds the operators that the plan needs and that do not run as they are. Compiles
        patterns, so it may take seconds."""
        enabled = self.has_families and self.factory.families
        run = with_families(plan, self.run, self.factory.apart, enabled=enabled)
        prepared = PreparedPlan(plan, run)
        for node in self._changed_nodes(prepared.run.plan):
            current = self.running.get(node.id)
            if current is None or not self.factory.reusable(current.node, node):
                previous = current.operator if current else None
                prepared.operators[node.id] = self.factory.build(node, previous)
        return prepared

    def switch(self, prepared: PreparedPlan, state: InitialState = _EMPTY) -> None:
        """Puts a prepared plan in place. Nodes that stay keep their tables; nodes that go are
        closed and lose theirs; new ones open with the tables that `state` has for them.

        ServiceError where an operator keeps other tables than were restored for it."""
        plan, come = prepared.run.plan, self._arrivals(prepared.run, state)
        state = replace(state, tables=come.tables)
        # Before the old nodes go: their tables would be dropped with them.
        taken_over = {**self._take_over_tables(plan, state.inherited), **come.single}
        self._leave_families(prepared.run)
        self._remove_nodes(plan)
        changed = plan.nodes.difference(self.run.plan.nodes)
        versions = come.versions | dict(state.created_at_version)
        for node in self._changed_nodes(plan):
            current, new = self.running.get(node.id), prepared.operators.get(node.id)
            if current is None:
                version = versions.get(node.id, plan.version)
                self.running[node.id] = self._add_node(
                    prepared, node, state, taken_over, version, split=come.split
                )
            else:
                self._settle_late_rows(current)
                operator = current.operator if new is None else self._replace(current, new)
                self.running[node.id] = RunningNode(node, operator, current.context)
        self.plan, self.run = prepared.plan, prepared.run
        for name, members in come.members.items():
            for number, tables in members:
                for local, rows in tables.items():
                    absorb_member(self.tables_here(name)[local], number, rows)
        # The state of a family changes with its members, even where its nodes do not.
        self.resting.change(changed.union(come.members))
        self._change_timers(changed.union(come.members))
        if state.inherited:
            self._announce_inheritance(state.inherited)

    def tell_missed(self, prepared: PreparedPlan, write: SinkWrite) -> None:
        """Tells operators that a prepared plan changes what they have missed so far."""
        if not self.in_tasks:
            nodes = prepared.run.plan.nodes
            self.resting.before_change(nodes, nodes.difference(self.run.plan.nodes))
            self._tell_missed(write)

    def set_scan_filters(self, scans: Iterable[str]) -> Mapping[str, Scalar]:
        """Derives the filters of these scans from the plan, and returns them."""
        self.scan_filters = scan_filters(self.plan, scans) if self._filters else {}
        return self.scan_filters

    def _change_timers(self, names: Iterable[str]) -> None:
        for name in names:
            running = self.running.get(name)
            if running is not None and isinstance(running.operator, Timed):
                self._timed[name] = running.operator
                self._changed_timers.add(name)
            elif self._timed.pop(name, None) is not None:
                self._changed_timers.discard(name)
                self._timers.put(name, None)

    def _take_over_tables(self, plan: PhysicalPlan, inherited: Mapping[str, str]) -> _TakenOver:
        """Collects the tables that new nodes take over: the last heir of a node that goes gets the
        tables themselves, all others get copies."""
        taken: dict[str, dict[str, KeyedTable]] = {}
        alone = {n: s for n, s in inherited.items() if n in plan.nodes and s in self.running}
        # A later heir overwrites an earlier one: `last` is the one that needs no copy.
        last = {source: node for node, source in alone.items() if source not in plan.nodes}
        for node, source in alone.items():
            if last.get(source) != node:
                taken[node] = self.running[source].context.copy()
        return taken | {
            node: self.running[source].context.hand_over() for source, node in last.items()
        }

    def _arrivals(self, run: FamilyPlan, state: InitialState) -> Arrivals:
        created = state.created_at_version

        def find(node: str) -> dict[str, KeyedTable] | None:
            return self.tables_of(node) if self.runs(node) else None

        return arrivals(run, self.run, state.tables, created, find, state.inherited)

    def _leave_families(self, run: FamilyPlan) -> None:
        for name, family in self.run.families.items():
            if name not in run.families:
                continue
            self._settle_late_rows(self.running[name])
            for number in leave(family, run.families[name], self.tables_here(name).values()):
                self.running[name].context.counters.pop(f"{LATE_ROWS}/{number}", None)
                self._settled.pop(family.members[number].state, None)

    def _remove_nodes(self, plan: PhysicalPlan) -> None:
        gone = self.run.plan.nodes.difference(plan.nodes)
        for name in [n for n in gone if n not in plan.nodes]:
            node = self.running.pop(name)
            self.retired.update(node.context.counters)
            self.seconds.pop(name, None)
            self._settle_late_rows(node)
            for counted, _, _ in self._late_rows(node):  # by other counters, if it comes again
                del self._settled[counted]
            self.firing.waiting.pop(name, None)
            self._retire(node)
            node.context.drop()

    def _add_node(
        self,
        prepared: PreparedPlan,
        node: PhysicalNode,
        state: InitialState,
        taken_over: _TakenOver,
        version: int,
        *,
        split: bool,
    ) -> RunningNode:
        inherited = taken_over.get(node.id)
        context = NodeContext(
            node.id,
            version,
            self.tables,
            state.tables,
            inherited,
            self.guard.check,
            self.guard.charge,
        )
        operator = prepared.operators.get(node.id) or self.factory.build(node, None)
        self._open(operator, node.id, context)
        if node.id in state.created_at_version:
            context.check_complete(may_lack_all=split)
        return RunningNode(node, operator, context)

    def _replace(self, current: RunningNode, new: Operator) -> Operator:
        """Opens another operator over the tables of the current one."""
        self._retire(current)
        self._open(new, current.node.id, current.context)
        return new

    def _open(self, operator: Operator, node: str, context: NodeContext) -> None:
        if isinstance(operator, FiresInSteps):
            operator.steps.share(self.firing, node)
        operator.open(context)

    def _retire(self, node: RunningNode) -> None:
        """Closes an operator; what it has counted stays."""
        if isinstance(node.operator, RulesOperator):
            self._rows.update(node.operator.rows_by_job)
        node.operator.close()

    def _settle_late_rows(self, node: RunningNode) -> None:
        """Credits the late rows of a node to its jobs, which are others from now on."""
        for name, jobs, rows in self._late_rows(node):
            self._late.update(dict.fromkeys(jobs, rows - self._settled.get(name, 0)))
            self._settled[name] = rows

    def _late_rows(self, node: RunningNode) -> Iterator[tuple[str, frozenset[str], int]]:
        """Yields the late rows of a node, or of each member of a family that has any: by the node
        that is theirs, with its jobs."""
        counters, family = node.context.counters, self.run.families.get(node.node.id)
        if family is None:
            counted = [(node.node.id, node.node.jobs, counters[LATE_ROWS])]
        else:
            names = ((m, f"{LATE_ROWS}/{number}") for number, m in family.members.items())
            counted = [(m.state, m.jobs, counters[name]) for m, name in names if name in counters]
        yield from (entry for entry in counted if entry[2])

    def _announce_inheritance(self, inherited: Mapping[str, str]) -> None:
        for node in self.running.values():
            if isinstance(node.operator, StateSuccessor):
                node.operator.on_state_takeover(inherited, self.plan.version)

    def _changed_nodes(self, plan: PhysicalPlan) -> list[PhysicalNode]:
        """The nodes of the plan that differ from those that run, producers first."""
        names = plan.nodes.difference(self.run.plan.nodes)
        # Only what differs is visited: a graph may have many thousands of nodes, and a change a
        # few.
        return sorted((plan.nodes[n] for n in names if n in plan.nodes), key=lambda n: n.rank)

    # ---- state -----------------------------------------------------------------------------------

    def tables_of(self, node: str) -> dict[str, KeyedTable]:
        """The tables of a node by the operator's names; none if it keeps none or does not run. Of
        a member of a family copies of its own."""
        if node not in self.run.member_of:
            return self.tables_here(node)
        family, number = self.run.member_of[node]
        tables = self.tables_here(family.state)
        return {name: single_table(table, number) for name, table in tables.items()}

    def runs(self, node: str) -> bool:
        """True if a node runs, alone or in a family."""
        return node in self.running or node in self.run.member_of

    def sizes_of(self, node: str) -> dict[str, tuple[int, int]]:
        """The rows and bytes of each table of a node, by the operator's names. A member of a family
        has its rows' share of the bytes."""
        if node in self.run.member_of:
            family, number = self.run.member_of[node]
            tables = self.tables_here(family.state)
            return {name: self._shares.of(table, number) for name, table in tables.items()}
        return {name: (len(table), table.bytes) for name, table in self.tables_of(node).items()}

    def tables_here(self, node: str) -> dict[str, KeyedTable]:
        """The tables of a node as far as they are in this process, see `tables_of`."""
        names = self.running[node].context.names if node in self.running else ()
        return {local_name(name): self.tables[name] for name in names}

    def layouts(self, node: str) -> dict[str, str]:
        """The layout of each table of a running node, by the table's name."""
        if node in self.run.member_of:
            tables = self.tables_here(self.run.member_of[node][0].state)
            return {name: self._shares.layout(table) for name, table in tables.items()}
        return {name: table.layout for name, table in self.tables_here(node).items()}

    def waiting(self) -> dict[str, Waiting]:
        """Returns what operations keep until a later watermark, by node."""
        alone = (n for n in self.running if n not in self.run.families)
        found = {n: waiting_in(self.running[n].node, self.tables_here(n)) for n in alone}
        waiting = {name: waits for name, waits in found.items() if waits is not None}
        for name, family in self.run.families.items():
            by_number = waiting_of_members(self.running[name].node, self.tables_here(name))
            waiting |= {family.members[n].state: waits for n, waits in by_number.items()}
        return waiting

    def created_at_version(self) -> dict[str, int]:
        """The graph version that created each node with tables."""
        alone = (name for name in self.tables if not name.startswith(FAMILY))
        nodes = self.plan.graph.nodes
        members = {node: nodes[node].created_at_version for node in self.run.member_of}
        return dict(map(creation_version, alone)) | members

    def next_timer(self) -> int | None:
        """The earliest processing time (ms) at which an operator wants a tick; None if none
        does."""
        # A timer changes with its operator's state, and that only when the operator runs.
        for name in self._changed_timers:
            self._timers.put(name, self._timed[name].timer())
        self._changed_timers.clear()
        return self._timers.first()

    def task_state(self) -> TaskState | None:
        """Returns where tasks keep the state; None if it is in `tables`."""
        return None

    def restore_tasks(self, state: TaskState | None) -> None:
        """Goes on with the state that tasks have kept, after `switch`."""
        raise AssertionError("there are no tasks")

    def discard_before(self, state: TaskState) -> None:
        """Deletes what tasks have kept before this state."""

    # ---- firing in steps -------------------------------------------------------------------------

    def resumptions(self) -> tuple[Resumption, ...]:
        """The operators that have more to fire, but for those before others: what these have left
        must be done before they get more."""
        known = [
            Resumption(node, steps.watermark, steps.passed, steps.idle)
            for node, steps in self.firing.waiting.items()
            if steps.watermark is not None
        ]
        last = [r for r in known if not self._behind(r.node).intersection(s.node for s in known)]
        return tuple(sorted(last, key=lambda r: (-self.running[r.node].node.rank, r.node)))

    def _behind(self, node: str) -> set[str]:
        """The operators that get rows of a node, also by way of others."""
        found, left = set[str](), [node]
        while left:
            edges = chain.from_iterable(self.running[left.pop()].node.edges.values())
            new = {e.target for e in edges if e.target in self.running} - found
            found |= new
            left += new
        return found

    def take_unknown(self) -> bool:
        """True if operators were restored since the last call of which it is not known whether they
        have more to fire: a tick tells."""
        unknown = [n for n, steps in self.firing.waiting.items() if steps.watermark is None]
        for node in unknown:
            del self.firing.waiting[node]
        return bool(unknown)

    def resume(self, resumption: Resumption, proctime: int, seed: int, write: SinkWrite) -> None:
        """Lets an operator fire more of what is due; does nothing if it runs no more."""
        if resumption.node in self.running:
            since, *steps = resumption.passed
            operator = self.running[resumption.node].operator
            if isinstance(operator, FiresInSteps):
                operator.steps.resumed = True
            plan = self.running[resumption.node].node.plan
            assert isinstance(plan, LogicalPlan), "rules have nothing to fire"
            tick = empty(plan.inputs[0].schema, proctime=proctime, watermark=resumption.watermark)
            tick = replace(tick, seed=seed, idle=resumption.idle, since=since)
            self.push(resumption.node, replace(tick, steps=np.array(steps, np.int64)), write)

    def restore_firing(self, resumptions: Iterable[Resumption]) -> None:
        """Sets what operators had left to fire at the checkpoint that was restored: nothing, if
        they are not among these."""
        self.firing.waiting.clear()
        for left in resumptions:
            node = self.running.get(left.node)
            if node is not None and isinstance(node.operator, FiresInSteps):
                node.operator.steps.restore(left.watermark, left.passed, left.idle)

    # ---- rows ------------------------------------------------------------------------------------

    def opened(self, scan: Scan, source: Source) -> Source:
        """Returns the source through which the graph reads a table: the one that was opened."""
        return source

    def begin(self, record: EpochRecord) -> None:
        """Begins an epoch."""
        self.firing.cost = record.firing_cost

    def read(
        self, source: RunningSource, node: str, chunk: Chunk, record: EpochRecord, write: SinkWrite
    ) -> None:
        """Gives rows of a source to its node, see `push`."""
        self.count_pruned(node, chunk)
        self.push(node, source.batch(chunk, record.proctime, record.seed), write)

    def count_pruned(self, node: str, chunk: Chunk) -> None:
        """Counts the parts that a source has left out."""
        if chunk.pruned:
            self.running[node].context.counters[PRUNED] += chunk.pruned

    def end(self) -> int:
        """Ends an epoch after its `flush`. Returns how many rows were read that its chunks did not
        have."""
        self.firing.cost = None
        return 0

    def push(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to input 0 of `node`, and what comes out to the nodes behind it. Rows for
        sinks go to `write`, rows in error to `self.errors`.

        Nodes run in topological order, so each sees all input of this batch at once. Nodes that
        take an epoch's input together wait for `flush`, or until many rows are buffered."""
        self._run(self._waiting(node, [(0, batch)], write))
        if self._buffered_rows >= _ROWS:
            self.flush(write)

    def flush(self, write: SinkWrite) -> None:
        """Runs the nodes that take an epoch's input together over what is buffered for them. Those
        with state `gather` it; the others get few batches of many rows."""
        while self._buffered:
            # Producers first: running a node may fill the buffers of those behind it.
            name = min(self._buffered, key=lambda n: (self.running[n].node.rank, n))
            inputs = self._buffered.pop(name)
            if not self.running[name].context.stateful:
                inputs = [(0, batch) for batch in merge_runs([b for _, b in inputs])]
            self._run(self._waiting(name, inputs, write))
        self._buffered_rows = 0

    def push_output(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to the nodes behind `node`, as if it had come out of it."""
        work = WaitingInput(node, write)
        self._route(self.running[node], 0, batch, work)
        self._run(work)

    def _waiting(self, node: str, inputs: list[PortBatch], write: SinkWrite) -> WaitingInput:
        return WaitingInput(node, write, {node: inputs}, [(self.running[node].node.rank, node)])

    def _run(self, work: WaitingInput) -> None:
        """Runs the nodes that have input."""
        try:
            while work.queue:
                _, name = heapq.heappop(work.queue)
                current = self.running[name]
                outer = self.guard.enter(current.node)
                if name in self._timed:
                    self._changed_timers.add(name)
                self._run_node(current, work.inputs.pop(name), work)
                self.guard.leave(outer)
        except OperatorFailed as error:
            self.guard.interrupts.permitted = False
            self.guard.interrupts.take_back()
            family = self.run.nodes.get(error.node)
            raise error if family is None else FamilyFailed(family.id, str(error)) from error
        except BaseException:
            # What is undone from here on is not the operator's. First a plain write: a call could
            # be interrupted before it.
            self.guard.interrupts.permitted = False
            self.guard.interrupts.take_back()
            raise

    def _run_node(self, current: RunningNode, inputs: list[PortBatch], work: WaitingInput) -> None:
        """Runs a node over its input, and hands on what comes out.

        An operator may produce more rows than memory should hold (a join of one key, say). Each
        time `_ROWS` of them have come out, the nodes behind it run first, as if its output were
        several batches."""
        rows = 0
        streams = run_contained(current.node, current.operator, current.context.stateful, inputs)
        for port, result in chain.from_iterable(streams):
            self.guard.emitted(result.num_rows)
            if self.resting.missed:
                self._tell_missed(work.write)
            if rows >= _ROWS:
                self._run(work)
                rows = 0
            rows += _weight(result)
            if port in (ERROR_PORT, FATAL_ERROR_PORT):
                family = self.run.nodes.get(current.node.id)
                source = self.running[work.source].node
                letters = with_source(result, current.node, source, family)
                self.errors.append((port, letters))
            else:
                self._route(current, port, result, work)
            self.guard.resume()

    def _tell_missed(self, write: SinkWrite) -> None:
        """Gives operators the ticks that they have missed: nothing comes of these, but it does of
        what follows."""
        missed, work = tuple(self.resting.missed), WaitingInput("", write)
        self.resting.missed.clear()
        for name, port, moment in missed:
            for edge in self.running[name].node.edges.get(port, ()):
                target = self.running.get(edge.target)
                if target is None or not isinstance(target.node.plan, LogicalPlan):
                    continue  # a sink, or rules, which know no time
                schema = target.node.plan.inputs[edge.target_port].schema
                tick = empty(schema, proctime=moment.proctime, watermark=moment.watermark)
                tick = replace(tick, since=moment.watermark, idle=moment.idle)
                work.add(target.node, edge.target_port, tick)
        self._run(work)

    def _route(self, source: RunningNode, port: int, batch: Batch, work: WaitingInput) -> None:
        """Hands a batch to the nodes and sinks behind an output port."""
        for edge in source.node.edges.get(port, ()):
            target = self.running.get(edge.target)
            if target is None:  # a sink
                if batch.num_rows:
                    if edge.job is not None:
                        self._rows[edge.job] += batch.num_rows
                        if len(self.plan.sinks[edge.target].writers) > 1:
                            of = np.zeros(batch.num_rows, np.int64)
                            batch = replace(batch, writers=Writers((edge.job,), of))
                    work.write(edge.target, batch)
            elif target.node.buffers_epoch:
                self._buffered.setdefault(edge.target, []).append((edge.target_port, batch))
                self._buffered_rows += _weight(batch)
            else:
                work.add(target.node, edge.target_port, batch)

    def rows_by_job(self) -> Counter[str]:
        """Rows given to sinks so far, by job: those of rules, and those of other operators that
        one job owns. Any thread."""
        rows = Counter(self._rows)
        for node in list(self.running.values()):
            if isinstance(node.operator, RulesOperator):
                rows.update(dict(node.operator.rows_by_job))  # a copy: the graph's thread counts on
        return rows

    def late_rows_by_job(self) -> Counter[str]:
        """Rows dropped as late so far, by job; an operation that jobs share counts for each of
        them. Any thread."""
        late = Counter(self._late)
        for node in list(self.running.values()):
            for name, jobs, rows in self._late_rows(node):
                late.update(dict.fromkeys(jobs, rows - self._settled.get(name, 0)))
        return late

    def late_rows(self) -> dict[str, int]:
        """Returns the rows dropped as late so far, by node. Any thread."""
        nodes = list(self.running.values())
        return {name: rows for node in nodes for name, _, rows in self._late_rows(node)}

    def rows_of_members(self, family: Family) -> Counter[str]:
        """Returns the rows that a family has had so far, by job; where jobs share a member, for
        each of them. Any thread."""
        rows: Counter[str] = Counter()
        head = self.running.get(family.head)
        if head is not None and isinstance(head.operator, RulesOperator):
            passed = dict(head.operator.passed)
            for member in family.members.values():
                rows.update(dict.fromkeys(member.jobs, passed.get(member.rule, 0)))
        return rows

    def node_seconds(self) -> dict[str, float]:
        """Returns the time of operators by node, that which jobs share. Any thread."""
        return dict(self.seconds)

    def own_seconds(self) -> dict[str, float]:
        """Returns the time of operators that is of single jobs, by job. Any thread."""
        return {}

    def add_rows(self, job: str, rows: int) -> None:
        """Adds rows that operators outside of the plan gave to sinks for a job."""
        self._rows[job] += rows

    def take_errors(self) -> Output:
        """Returns the rows in error since the last call."""
        errors, self.errors = self.errors, []
        return errors

    def close(self) -> None:
        """Closes all operators."""
        for node in self.running.values():
            node.operator.close()


def _weight(batch: Batch) -> int:
    """Returns the number of rows of usual length that a batch is like."""
    if not batch.num_rows:
        return 0
    # First by whole buffers, which take less time to ask; other batches may share them.
    if sum(c.get_total_buffer_size() for c in batch.columns) >> _ROW_BITS <= batch.num_rows:
        return batch.num_rows
    size: int = sum(c.nbytes for c in batch.columns) >> _ROW_BITS
    return max(batch.num_rows, size)
