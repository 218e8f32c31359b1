"""What is asked of the engine, what came of it, and which requests are refused before anything is
planned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from parser.errors import JobError, SqlError
from planner.catalog import Catalog, same_definition
from sqlengine.catalog.changes import full_name
from sqlengine.graphs.takeover import StateReport
from sqlengine.jobs.deliveries import Delivery
from sqlengine.jobs.job import Job, Origin
from sqlengine.jobs.planning import JobText, PlannedJob


@dataclass(frozen=True)
class Request:
    """One change, of any number of jobs. `renames`: old name to new, for texts that did not change;
    what `upserts` has under the new name says the file. `savepoints`: what jobs start from.
    `dry_run`: the outcomes are those of the change, which is not made."""

    origin: Origin
    upserts: Mapping[str, JobText] = field(default_factory=dict)
    removes: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)
    take_over: bool = False
    dry_run: bool = False
    savepoints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of the request for one job: added, replaced, unchanged, removed, renamed, waiting,
    refused, valid. `savepoint`: where the one is that was written, or that the job started from.
    `deliveries`: for a valid one, the tables that it writes to, with their guarantees."""

    name: str
    status: str
    version: int = 0
    error: SqlError | None = None
    state: tuple[StateReport, ...] = ()
    savepoint: str | None = None
    deliveries: tuple[Delivery, ...] = ()


def check_origin(name: str, held: Job | None, request: Request) -> None:
    """Only the origin that a job came from may change it, unless the request takes it over."""
    if held is not None and held.origin is not request.origin and not request.take_over:
        raise JobError(
            f"job '{name}' belongs to {held.origin.value}",
            detail=f"this request comes from {request.origin.value}",
            hint="change it where it came from, or take it over ('--take-over')",
        )


def used_by(
    objects: Collection[str], jobs: Iterable[Job], but: Collection[str] = ()
) -> dict[str, list[str]]:
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


def check_in_use(
    objects: Collection[str], jobs: Iterable[Job], but: Collection[str], what: str
) -> None:
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


def changed_objects(old: Catalog, plan: PlannedJob) -> set[str]:
    """Objects of the old catalog that the plan defines differently."""
    held = [(old.objects[o.name], o) for o in plan.objects if o.name in old.objects]
    return {full_name(o.name) for before, o in held if not same_definition(before, o)}
