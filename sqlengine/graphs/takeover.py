"""What a change of a graph does to the state of its jobs: decided once, by
`planner.graph.takeover`, and both reported and done."""

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

_STAY = (
    "those that the new version never replaces, as of ranks that it has no more, stay as the old"
    " one wrote them"
)


@dataclass(frozen=True)
class StateReport:
    """What becomes of the state of one operation of a job, and why: 'kept', 'reset' (its old rows
    are dropped), 'new', or 'dropped' (the new version has no such operation). Of the rows in a
    table with a primary key behind one that is reset 'left': those that the new version never
    replaces, as of ranks that it no longer has, stay as the old one wrote them."""

    operator: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True)
class Takeover:
    """`inherited`: by node, the node of the old graph whose tables it takes up; `reports` by
    job."""

    inherited: Mapping[str, str]
    reports: Mapping[str, tuple[StateReport, ...]]


def take_over(
    old: Graph, change: GraphChange, executor: EmbeddedExecutor, policies: Mapping[str, Policy]
) -> Takeover:
    """Decides for all jobs of a change that is prepared but not made. JobError where two jobs would
    share an operation, and bring different state to it."""
    decisions = {
        job: _decisions(old, change, executor, job, policies.get(job, Policy.AUTO))
        for job, version in change.jobs.items()
        if version
    }
    reports = {job: report(found, change.graph, job) for job, found in decisions.items()}
    return Takeover(_inherited(change.graph, decisions), reports)


def unchanged_report(graph: Graph, job: str) -> tuple[StateReport, ...]:
    """That of a change that leaves the job as it is."""
    operations = list(_operations(graph, job))
    return report(decide(operations, operations), graph, job)


def report(decisions: Iterable[Decision], graph: Graph, job: str) -> tuple[StateReport, ...]:
    """The decisions for people, and the tables in which rows of the old version stay."""
    found = [StateReport(d.operation.name, d.outcome.value, d.reason) for d in decisions]
    if any(r.outcome == Outcome.RESET for r in found):
        found += [
            StateReport(f"the rows in {name}", "left", _STAY) for name in _updated(graph, job)
        ]
    return tuple(found)


def _decisions(
    old: Graph, change: GraphChange, executor: EmbeddedExecutor, job: str, policy: Policy
) -> list[Decision]:
    def obstacle(source: Operation, wanted: Operation) -> str | None:
        if source.id == wanted.id:
            return None
        node = change.prepared.plan.nodes[wanted.id]
        return difference(executor.layouts(source.id), layouts_of(node, executor.factory))

    before, after = _operations(old, change.renamed.get(job, job)), _operations(change.graph, job)
    return decide(list(before), list(after), policy, obstacle)


def _operations(graph: Graph, job: str) -> Iterator[Operation]:
    for node, _ in stateful_nodes(graph, job):
        plan = graph.nodes[node].plan
        if plan.stateful:
            yield operation_of(plan, node, node)


def _inherited(graph: Graph, decisions: Mapping[str, Iterable[Decision]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for decision in (d for made in decisions.values() for d in made):
        source, node = decision.source, decision.operation.id
        if decision.outcome is Outcome.KEPT and source is not None and source.id != node:
            found[node] = source.id
    for node, source_id in found.items():
        for job in sorted(graph.nodes[node].jobs):
            brings = next(
                (d.source for d in decisions.get(job, ()) if d.operation.id == node), None
            )
            if brings is None or brings.id != source_id:
                others = ", ".join(sorted(graph.nodes[node].jobs - {job}))
                raise JobError(
                    f"job '{job}' would share state with {others}, and has not the same",
                    detail=(
                        f"jobs of one change share equal operations, and '{others}' keeps its state"
                    ),
                    hint="submit them one after the other",
                )
    return found


def _updated(graph: Graph, job: str) -> list[str]:
    """The tables in which the job replaces rows by their primary key."""
    plans = (graph.nodes[i].plan for i in graph.jobs.get(job, ()))
    tables = (p.table for p in plans if isinstance(p, Sink) and p.input.changes)
    return sorted({t.display for t in tables if t is not None and t.primary_key})
