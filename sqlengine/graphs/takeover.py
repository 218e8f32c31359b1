"""Applies the rules of `planner.graph.takeover` to a change: which state new operations take over.

The decision is made once; it is both reported and carried out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from parser.errors import JobError
from planner.graph.merge import Graph, stateful_nodes
from planner.graph.takeover import Decision, Operation, Outcome, Policy, decide, operation_of
from planner.logical import Sink
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
    gets; `reports`: by job."""

    inherited: Mapping[str, str]
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
    return Takeover(_inherited(change.graph, decisions), reports)


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

    before, after = _operations(old, change.renamed.get(job, job)), _operations(change.graph, job)
    return decide(list(before), list(after), policy, obstacle)


def _operations(graph: Graph, job: str) -> Iterator[Operation]:
    for node, _ in stateful_nodes(graph, job):
        plan = graph.nodes[node].plan
        if plan.stateful:
            yield operation_of(plan, node, node)


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
