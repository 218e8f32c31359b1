"""What is asked of the engine, what came of it, and which requests are refused before anything is planned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from parser.errors import JobError, SqlError
from planner.catalog import Catalog, Identifier, same_definition
from planner.logical import Sink
from planner.merge import Graph
from sqlengine.jobs import Job, Origin
from sqlengine.planning import JobText, PlannedJob


@dataclass(frozen=True)
class Request:
    """One change, of any number of jobs. `renames`: old name to new, for texts that did not change; what `upserts` has
    under the new name says the file. `dry_run`: the outcomes are those of the change, which is not made."""

    origin: Origin
    upserts: Mapping[str, JobText] = field(default_factory=dict)
    removes: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)
    take_over: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class StateReport:
    """What becomes of one stateful operator of a replaced job: 'kept', 'new' or 'reset' (its old rows are dropped). Of the
    rows in a table with a primary key behind one that is reset 'left': those that the new version never replaces, as of
    ranks that it no longer has, stay as the old one wrote them."""

    operator: str
    outcome: str


@dataclass(frozen=True)
class Outcome:
    """What came of the request for one job: added, replaced, unchanged, removed, renamed, waiting, refused, valid."""

    name: str
    status: str
    version: int = 0
    error: SqlError | None = None
    state: tuple[StateReport, ...] = ()


def check_origin(name: str, held: Job | None, request: Request) -> None:
    """Only the origin that a job came from may change it, unless the request takes it over."""
    if held is not None and held.origin is not request.origin and not request.take_over:
        raise JobError(
            f"job '{name}' belongs to {held.origin.value}",
            detail=f"this request comes from {request.origin.value}",
            hint="change it where it came from, or take it over ('--take-over')",
        )


def full_name(name: Identifier) -> str:
    return ".".join(name).rstrip(".")


def used_by(objects: Collection[str], jobs: Iterable[Job], but: Collection[str] = ()) -> dict[str, list[str]]:
    """For each object that jobs (other than `but`) use, their names."""
    users: dict[str, list[str]] = {}
    for job in jobs:
        for name in set(job.uses) & set(objects) if job.name not in but else ():
            users.setdefault(name, []).append(job.name)
    return {name: sorted(names) for name, names in users.items()}


def defined_only_by(job: Job, jobs: Iterable[Job]) -> set[str]:
    """Objects that no other job defines too."""
    others = {name for j in jobs if j.name != job.name for name in j.defines}
    return set(job.defines) - others


def check_in_use(objects: Collection[str], jobs: Iterable[Job], but: Collection[str], what: str) -> None:
    """Refuses to take away or change objects that other jobs use, and names these jobs."""
    users = used_by(objects, jobs, but)
    if users:
        name, names = sorted(users.items())[0]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise JobError(
            f"'{name.rsplit('.', 1)[-1]}' is used by {shown}",
            detail=f"{what} would leave {'it' if len(names) == 1 else 'them'} without a definition",
            hint="remove these jobs first, or give the new definition another name",
        )


def without(catalog: Catalog, names: Collection[str]) -> Catalog:
    """The catalog without some objects."""
    for item in [i for i in catalog.objects if full_name(i) in names]:
        catalog = catalog.drop(item)
    return catalog


def changed_objects(old: Catalog, plan: PlannedJob) -> set[str]:
    """Objects of the old catalog that the plan defines differently."""
    held = [(old.objects[o.name], o) for o in plan.objects if o.name in old.objects]
    return {full_name(o.name) for before, o in held if not same_definition(before, o)}


def state_report(old: Graph, new: Graph, job: str, was: str | None = None) -> tuple[StateReport, ...]:
    """What a change does to the state of one job, which was called `was` before."""
    before = [i for i in old.jobs.get(was or job, ()) if old.nodes[i].plan.stateful]
    after = [i for i in new.jobs.get(job, ()) if new.nodes[i].plan.stateful]
    report = []
    for node in after:
        plan = new.nodes[node].plan
        outcome = "kept" if node in before else "reset" if before else "new"
        report.append(StateReport(f"{type(plan).__name__} {plan.label}", outcome))
    if any(r.outcome == "reset" for r in report):
        report += [StateReport(f"the rows in {name}", "left") for name in _updated(new, job)]
    return tuple(report)


def _updated(graph: Graph, job: str) -> list[str]:
    """The tables in which the job replaces rows by their primary key."""
    plans = (graph.nodes[i].plan for i in graph.jobs.get(job, ()))
    tables = (p.table for p in plans if isinstance(p, Sink) and p.input.changes)
    return sorted({t.display for t in tables if t is not None and t.primary_key})
