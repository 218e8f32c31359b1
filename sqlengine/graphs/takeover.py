"""Applies the rules of `planner.graph.takeover` to a change: which state new operations take over.

The decision is made once; it is both reported and carried out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from parser.errors import JobError
from planner.graph.merge import Graph, GraphNode, stateful_nodes
from planner.graph.takeover import (
    Decision,
    Operation,
    Outcome,
    Policy,
    contents,
    decide,
    operation_of,
)
from planner.logical import LogicalPlan, Scan, Sink
from sqlengine.connectors.record_places import formats, record_options
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.graph_change import GraphChange
from sqlengine.snapshots.layouts import difference, layouts_of

_ROWS_LEFT = (
    "those that the new version never replaces, as of ranks that it has no more, stay as the old"
    " one wrote them"
)


@dataclass(frozen=True)
class StateReport:
    """The effect of a change on the state of one operation of a job, and the reason.

    `outcome`: 'kept', 'reset' (its old rows are dropped), 'new', or 'dropped' (the new version has
    no such operation). A reset operation before a table with a primary key also gets a report of
    the table, 'left': rows that the new version never replaces stay as the old one wrote them."""

    operator: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True)
class Takeover:
    """The state that a change takes over. `inherited`: by new node, the old node whose tables it
    gets; `continued`: by new scan, the old scan that reads the same records; `reports`: by job."""

    inherited: Mapping[str, str]
    continued: Mapping[str, str]
    reports: Mapping[str, tuple[StateReport, ...]]


def take_over(
    old: Graph, change: GraphChange, executor: EmbeddedExecutor, policies: Mapping[str, Policy]
) -> Takeover:
    """Decides for all jobs of a prepared change. JobError if two jobs would share an operation to
    which they bring different state."""
    decisions = {
        job: _decisions(old, change, executor, job, policies.get(job, Policy.AUTO))
        for job, version in change.jobs.items()
        if version
    }
    reports = {job: report(decided, change.graph, job) for job, decided in decisions.items()}
    replaced = {job: change.renamed.get(job, job) for job in decisions}
    inherited = _inherited(change.graph, decisions)
    continued = _continued(old, change.graph, replaced)
    times = _time_keepers(old, change, executor, replaced)
    return Takeover({**times, **inherited}, continued, reports)


def unchanged_report(graph: Graph, job: str) -> tuple[StateReport, ...]:
    """Returns the report of a change that leaves the job as it is."""
    operations = list(_operations(graph, job))
    return report(decide(operations, operations), graph, job)


def report(decisions: Iterable[Decision], graph: Graph, job: str) -> tuple[StateReport, ...]:
    """Returns the decisions for people, and the tables in which rows of the old version stay."""
    reports = [StateReport(d.operation.name, d.outcome.value, d.reason) for d in decisions]
    if any(r.outcome == Outcome.RESET for r in reports):
        reports += [
            StateReport(f"the rows in {name}", "left", _ROWS_LEFT)
            for name in _updated_tables(graph, job)
        ]
    return tuple(reports)


def _decisions(
    old: Graph, change: GraphChange, executor: EmbeddedExecutor, job: str, policy: Policy
) -> list[Decision]:
    def obstacle(source: Operation, target: Operation) -> str | None:
        if source.id == target.id:
            return None
        node = change.prepared.plan.nodes[target.id]
        return difference(executor.layouts(source.id), layouts_of(node, executor.factory))

    # A shadow that becomes live brings what it has, beside what the job has.
    names = dict.fromkeys((change.renamed.get(job, job), job))
    before = {o.id: o for name in names for o in _operations(old, name, read=True)}.values()
    after = _operations(change.graph, job, read=True)
    return decide(list(before), list(after), policy, obstacle)


def _operations(graph: Graph, job: str, *, read: bool = False) -> Iterator[Operation]:
    """Yields the stateful operations of a job; with `read` also what they are as far as it reads
    them."""
    found = contents(graph, job) if read and stateful_nodes(graph, job) else {}
    for node, _ in stateful_nodes(graph, job):
        plan = graph.nodes[node].plan
        if plan.stateful:
            yield operation_of(plan, node, node, found.get(node, ""))


def _time_keepers(
    old: Graph, change: GraphChange, executor: EmbeddedExecutor, replaced: Mapping[str, str]
) -> dict[str, str]:
    """Returns the operations without state of a job that know the time of their inputs, new to old:
    watermarks must not begin anew where nothing that is read has changed."""
    found: dict[str, str] = {}
    for job, before in replaced.items():
        known = {content: name for name, content in contents(old, before).items()}
        for name, content in contents(change.graph, job).items():
            source = known.get(content)
            stateful = change.graph.nodes[name].plan.stateful
            if source in executor.running and name not in old.nodes and not stateful:
                found[name] = str(source)
    return {new: source for new, source in found.items() if new in change.prepared.plan.nodes}


def _continued(old: Graph, new: Graph, replaced: Mapping[str, str]) -> dict[str, str]:
    """Returns the scans that replace others over the same records, new to old. They go on where
    the others are: no record is read twice, or left out."""
    found: dict[str, str] = {}
    for job, before in replaced.items():
        scans = [n for n in _scans(new, job) if n.id not in old.nodes]
        for scan in scans:
            same = (o for o in _scans(old, before) if _same_records(o.plan, scan.plan))
            for source in same:
                found.setdefault(scan.id, source.id)
    return found


def _scans(graph: Graph, job: str) -> list[GraphNode]:
    nodes = (graph.nodes[name] for name in graph.jobs.get(job, ()))
    return [n for n in nodes if isinstance(n.plan, Scan)]


def _same_records(old: LogicalPlan, new: LogicalPlan) -> bool:
    """True if both scans count the same records by the same offsets, however they decode them."""
    assert isinstance(old, Scan)
    assert isinstance(new, Scan)
    if old.looked_up or new.looked_up:
        return False  # each counts the versions of the table itself
    return _place(old) == _place(new)


def _place(scan: Scan) -> tuple[object, ...]:
    """Returns where the records of a scan are."""
    table = scan.table
    # In a topic a record is one whatever its format; in a file the format says what a record is.
    known_format = () if declared_capabilities(table).counts_records else tuple(formats(table))
    where = None if scan.where is None else scan.where.digest
    return (sorted(record_options(table).items()), known_format, where)


def _inherited(graph: Graph, decisions: Mapping[str, Iterable[Decision]]) -> dict[str, str]:
    """Returns, by new node, the old node whose tables it gets; checks that all jobs of a shared
    node agree."""
    inherited: dict[str, str] = {}
    for decision in (d for decided in decisions.values() for d in decided):
        source, node = decision.source, decision.operation.id
        if decision.outcome is Outcome.KEPT and source is not None and source.id != node:
            inherited[node] = source.id
    for node, source_id in inherited.items():
        for job in sorted(graph.nodes[node].jobs):
            source = next(
                (d.source for d in decisions.get(job, ()) if d.operation.id == node), None
            )
            # A shared node has one state: every job of it must bring that one.
            if source is None or source.id != source_id:
                others = ", ".join(sorted(graph.nodes[node].jobs - {job}))
                raise JobError(
                    f"job '{job}' would share state with {others}, and has not the same",
                    detail=(
                        f"jobs of one change share equal operations, and '{others}' keeps its state"
                    ),
                    hint="submit them one after the other",
                )
    return inherited


def _updated_tables(graph: Graph, job: str) -> list[str]:
    """Returns the tables in which the job replaces rows by their primary key."""
    plans = (graph.nodes[i].plan for i in graph.jobs.get(job, ()))
    tables = (p.table for p in plans if isinstance(p, Sink) and p.input.changes)
    return sorted({t.display for t in tables if t is not None and t.primary_key})
