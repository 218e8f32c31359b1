"""Runs a physical plan in this process: pushes batches through its operators in topological
order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from planner.graph.families import FamilyPlan, with_families
from planner.graph.family_members import FAMILY
from planner.graph.physical import PhysicalNode, PhysicalPlan
from planner.graph.scan_filters import scan_filters
from planner.logical import Scan
from planner.scalar import Scalar
from sqlengine.batch import Batch
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dataflow.births import Births
from sqlengine.executors.dataflow.firing import Firing
from sqlengine.executors.dataflow.flow import Flow, SinkWrite
from sqlengine.executors.dataflow.running_node import RunningFamilies, RunningNode
from sqlengine.executors.dataflow.timers import Timers
from sqlengine.executors.epochs import EpochRecord, Resumption
from sqlengine.executors.measures.row_counts import RowCounts
from sqlengine.executors.measures.waiting import Waiting, waiting_in, waiting_of_members
from sqlengine.executors.node_state.family_state import Arrivals, Restored, arrivals, leave
from sqlengine.executors.node_state.member_tables import MemberShares, absorb_member, single_tables
from sqlengine.executors.node_state.node_context import NodeContext, creation_version, local_name
from sqlengine.executors.prepared_plan import InitialState, PreparedPlan
from sqlengine.executors.sources import RunningSource
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.executors.ticks.resting import Resting
from sqlengine.operators.base import Operator, Output, StateSuccessor
from sqlengine.state.table import KeyedTable

# The counter of parts of files that were not read.
PRUNED: Final = "row_groups_pruned"


_EMPTY = InitialState()
_TakenOver = Mapping[str, Mapping[str, KeyedTable]]


class EmbeddedExecutor:
    """The operators and tables of one graph. `prepare` may run in any thread, everything else in
    the graph's.

    `running`: operators by node. `tables`: all state by full table name. `guard`: knows which node
    runs, and ends a step that must not go on. `seconds`: its time of each node. `in_tasks`: tasks
    of Spark have the state. `plan` has the nodes of jobs, `run` those that run. `flow` is the way
    of rows, with its `timers`, `firing` in steps, `resting` operators, and `counts` of rows.
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
        self._families = RunningFamilies()
        self.running: dict[str, RunningNode] = {}
        self.tables: dict[str, KeyedTable] = {}
        self.firing = Firing(self.running)
        self.counts = RowCounts(self.running, self._families)
        self.timers = Timers()
        self.resting = Resting(self.running)
        missed = self.resting.missed
        self.flow = Flow(self.running, self.guard, self.counts, self.timers, missed, self._families)
        self._shares = MemberShares()

    @property
    def run(self) -> FamilyPlan:
        """The plan with families, by whose nodes all that is named here goes."""
        return self._families.run

    # ---- changes of the plan ---------------------------------------------------------------------

    def prepare(self, plan: PhysicalPlan) -> PreparedPlan:
        """Builds the operators that the plan needs and that do not run as they are. Compiles
        patterns, so it may take seconds."""
        enabled = self.has_families and self.factory.families
        run = with_families(plan, self.run, self.factory.apart, enabled=enabled)
        joined = run.member_of.keys() - self.run.member_of.keys() - self.running.keys()
        prepared = PreparedPlan(plan, run, sorted(joined))
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
        plan, come = prepared.run.plan, self._arrivals(prepared, state)
        births = Births.before(self.running.values(), self.tables)
        state = replace(state, tables=come.tables, births=births)
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
                self.counts.settle(current)
                operator = current.operator if new is None else self._replace(current, new)
                self.running[node.id] = RunningNode(node, operator, current.context)
        self.plan = prepared.plan
        self._families.run = prepared.run
        for name, members in come.members.items():
            for number, rows in members:
                member = self.run.families[name].members[number]
                absorb_member(self.tables_here(name), member, rows)
        # The state of a family changes with its members, even where its nodes do not.
        self.resting.change(changed.union(come.members))
        self.timers.change(changed.union(come.members), self.running)
        if state.inherited:
            self._announce_inheritance(state.inherited)

    def tell_missed(self, prepared: PreparedPlan, write: SinkWrite) -> None:
        """Tells operators that a prepared plan changes what they have missed so far."""
        if not self.in_tasks:
            nodes = prepared.run.plan.nodes
            self.resting.before_change(nodes, nodes.difference(self.run.plan.nodes))
            self.flow.tell_missed(write)

    def set_scan_filters(self, scans: Iterable[str]) -> Mapping[str, Scalar]:
        """Derives the filters of these scans from the plan, and returns them."""
        self.scan_filters = scan_filters(self.plan, scans) if self._filters else {}
        return self.scan_filters

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

    def _arrivals(self, prepared: PreparedPlan, state: InitialState) -> Arrivals:
        def find(node: str) -> dict[str, KeyedTable] | None:
            return self.tables_of(node) if self.runs(node) else None

        restored = Restored(prepared.plan, state.tables, state.created_at_version)
        return arrivals(prepared.run, self.run, restored, find, state.inherited)

    def _leave_families(self, run: FamilyPlan) -> None:
        for name, family in self.run.families.items():
            if name not in run.families or run.families[name] is family:
                continue
            self.counts.settle(self.running[name])
            gone = leave(family, run.families[name], self.tables_here(name))
            self.counts.leave(name, family, gone)

    def _remove_nodes(self, plan: PhysicalPlan) -> None:
        gone = self.run.plan.nodes.difference(plan.nodes)
        for name in [n for n in gone if n not in plan.nodes]:
            node = self.running.pop(name)
            self.counts.remove(node)
            self.seconds.pop(name, None)
            self.guard.own.remove(name)
            self.firing.remove(name)
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
        new = RunningNode(node, operator, context)
        state.births.begin(new, self.running.values())
        return new

    def _replace(self, current: RunningNode, new: Operator) -> Operator:
        """Opens another operator over the tables of the current one."""
        self._retire(current)
        self._open(new, current.node.id, current.context)
        return new

    def _open(self, operator: Operator, node: str, context: NodeContext) -> None:
        self.firing.share(operator, node)
        operator.open(context)

    def _retire(self, node: RunningNode) -> None:
        """Closes an operator; what it has counted stays."""
        self.counts.retire(node)
        node.operator.close()

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
        seat = self.run.member_of[node]
        return single_tables(self.tables_here(seat.state), seat.number)

    def runs(self, node: str) -> bool:
        """True if a node runs, alone or in a family."""
        return node in self.running or node in self.run.member_of

    def sizes_of(self, node: str) -> dict[str, tuple[int, int]]:
        """The rows and bytes of each table of a node, by the operator's names. A member of a family
        has its rows' share of the bytes."""
        if node in self.run.member_of:
            seat = self.run.member_of[node]
            return self._shares.of(self.tables_here(seat.state), seat.number)
        return {name: (len(table), table.bytes) for name, table in self.tables_of(node).items()}

    def tables_here(self, node: str) -> dict[str, KeyedTable]:
        """The tables of a node as far as they are in this process, see `tables_of`."""
        names = self.running[node].context.names if node in self.running else ()
        return {local_name(name): self.tables[name] for name in names}

    def layouts(self, node: str) -> dict[str, str]:
        """The layout of each table of a running node, by the table's name."""
        if node in self.run.member_of:
            return self._shares.layouts(self.tables_here(self.run.member_of[node].state))
        return {name: table.layout for name, table in self.tables_here(node).items()}

    def waiting(self) -> dict[str, Waiting]:
        """Returns what operations keep until a later watermark, by node."""
        alone = (n for n in self.running if n not in self.run.families)
        found = {n: waiting_in(self.running[n].node, self.tables_here(n)) for n in alone}
        waiting = {name: waits for name, waits in found.items() if waits is not None}
        for name, family in self.run.families.items():
            by_number = waiting_of_members(self.running[name].node, self.tables_here(name))
            nth = family.states.index(name)
            waiting |= {family.members[n].states[nth]: waits for n, waits in by_number.items()}
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
        return self.timers.first()

    def task_state(self) -> TaskState | None:
        """Returns where tasks keep the state; None if it is in `tables`."""
        return None

    def restore_tasks(self, state: TaskState | None) -> None:
        """Goes on with the state that tasks have kept, after `switch`."""
        raise AssertionError("there are no tasks")

    def discard_before(self, state: TaskState) -> None:
        """Deletes what tasks have kept before this state."""

    # ---- rows ------------------------------------------------------------------------------------

    def opened(self, scan: Scan, source: Source) -> Source:
        """Returns the source through which the graph reads a table: the one that was opened."""
        return source

    def begin(self, record: EpochRecord) -> None:
        """Begins an epoch."""
        self.firing.limit.cost = record.firing_cost

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
        self.firing.limit.cost = None
        return 0

    def push(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to input 0 of `node`, see `Flow.push`."""
        self.flow.push(node, batch, write)

    def flush(self, write: SinkWrite) -> None:
        """Runs the nodes that take an epoch's input together over what is buffered for them."""
        self.flow.flush(write)

    def push_output(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to the nodes behind `node`, as if it had come out of it."""
        self.flow.push_output(node, batch, write)

    def resume(self, resumption: Resumption, proctime: int, seed: int, write: SinkWrite) -> None:
        """Lets an operator fire more of what is due; does nothing if it runs no more."""
        tick = self.firing.resume(resumption, proctime, seed)
        if tick is not None:
            self.push(resumption.node, tick, write)

    def node_seconds(self) -> dict[str, float]:
        """Returns the time of operators by node, that which jobs share. Any thread."""
        return dict(self.seconds)

    def own_seconds(self) -> dict[str, float]:
        """Returns the time of operators that is of single jobs, by job. Any thread."""
        return {}

    def take_errors(self) -> Output:
        """Returns the rows in error since the last call."""
        errors, self.flow.errors = self.flow.errors, []
        return errors

    def close(self) -> None:
        """Closes all operators."""
        for node in self.running.values():
            node.operator.close()
