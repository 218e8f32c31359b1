"""Requests to the engine, their outcomes, and the checks before anything is planned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from parser.errors import JobError, SqlError
from planner.catalog import Catalog, same_definition
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.broker.auto_create import NewTopic
from sqlengine.broker.topic_access import BadRequest
from sqlengine.catalog.changes import full_name
from sqlengine.config import Target
from sqlengine.engine.expected_versions import Expected
from sqlengine.graphs.takeover import StateReport
from sqlengine.jobs.deliveries import Delivery
from sqlengine.jobs.job import BEGINS, Job, Origin
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.system.sizes import moment_ms
from sqlengine.system.words import grouped, listed


@dataclass(frozen=True)
class Request:
    """A change of any number of jobs.

    `renames`: old name -> new, for texts that did not change; `upserts` has the file under the new
    name. `dry_run`: the change is prepared and reported, and not made. `savepoints`: the paths that
    jobs start from; `targets`: where jobs are told to run, whatever their texts say. `by`: who
    asks; `owners`: who asks for some of the texts, where it is not for all the same. `live`: its
    texts become live, whatever they say; `reason`: why shadows are removed. `expected`: the
    versions that jobs must have before the change.
    """

    origin: Origin
    upserts: Mapping[str, JobText] = field(default_factory=dict)
    removes: frozenset[str] = frozenset()
    renames: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    savepoints: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    by: Principal = TRUSTED
    owners: Mapping[str, Principal] = field(default_factory=dict)
    live: bool = False
    reason: str = ""
    expected: Mapping[str, Expected] = field(default_factory=dict)

    def principal(self, name: str) -> Principal:
        """Returns who asks for a text."""
        return self.owners.get(name, self.by)

    def signed(self) -> Request:
        """Returns the request with the names of those who ask in its texts, and what these may
        load."""
        return replace(
            self, upserts={n: _signed(t, self.principal(n)) for n, t in self.upserts.items()}
        )

    def only(self, names: Collection[str]) -> Request:
        """Returns the part of the request that names these texts."""
        return replace(
            self,
            upserts={n: text for n, text in self.upserts.items() if n in names},
            removes=frozenset(),
            renames={old: new for old, new in self.renames.items() if new in names},
            savepoints={n: path for n, path in self.savepoints.items() if n in names},
            targets={n: target for n, target in self.targets.items() if n in names},
        )


def _signed(text: JobText, by: Principal) -> JobText:
    loads = None if by.is_admin else tuple(p for grant in by.grants for p in grant.functions)
    return replace(text, by=by.name, loads=loads)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request for one job.

    `status`: added, replaced, unchanged, removed, renamed, waiting, refused, replanned, valid,
    started, stopped, failed, saved, isolated, merged, merging, moved, shadowed (it runs beside the
    live version), promoted. `state`: what becomes of the
    state of each operator. `savepoint`: the path of the one that was written, or that the job
    started from. `deliveries`: for a valid job, the tables that it writes to, with their
    guarantees. `topics`: those that were created for its tables, or for a valid job would be.
    `warnings`: settings and options of its text that have no effect, each with its position.
    `dependents`: the jobs that use what it defines differently now ('replanned' or 'unchanged').
    """

    name: str
    status: str
    version: int = 0
    error: SqlError | None = None
    state: tuple[StateReport, ...] = ()
    savepoint: str | None = None
    deliveries: tuple[Delivery, ...] = ()
    topics: tuple[NewTopic, ...] = ()
    warnings: tuple[str, ...] = ()
    dependents: tuple[Outcome, ...] = ()


def used_by(
    objects: Collection[str], jobs: Iterable[Job], but: Collection[str] = ()
) -> dict[str, list[str]]:
    """Returns the names of the jobs (other than `but`) that use each object."""
    users: dict[str, list[str]] = {}
    for job in jobs:
        for name in set(job.uses) & set(objects) if job.name not in but else ():
            users.setdefault(name, []).append(job.name)
    return {name: sorted(names) for name, names in users.items()}


def defined_only_by(job: Job, jobs: Iterable[Job]) -> set[str]:
    """Returns the objects that the job defines and no other one does."""
    others = {name for j in jobs if j.name != job.name for name in j.defines}
    return set(job.defines) - others


def check_in_use(
    objects: Collection[str], jobs: Iterable[Job], but: Collection[str], what: str
) -> None:
    """Raises JobError if jobs other than `but` use one of the objects, which `what` would take away
    or change; the error names these jobs."""
    users = used_by(objects, jobs, but)
    if users:
        name, names = sorted(users.items())[0]
        raise JobError(
            f"'{name.rsplit('.', 1)[-1]}' is used by {listed(names)}",
            detail=f"{what} would leave {'it' if len(names) == 1 else 'them'} without a definition",
            hint="remove these jobs first, or give the new definition another name",
        )


def in_use(objects: Collection[str], errors: Mapping[str, SqlError], hint: str) -> JobError:
    """Returns the refusal of a definition that jobs use (`errors`: why each would not run on)."""
    name, names = min(objects, default="a definition"), sorted(errors)
    alike = list(grouped((errors[job].reason, job) for job in names).values())
    reasons = "; ".join(f"{listed(jobs)}: {errors[jobs[0]]}" for jobs in alike[:5])
    user = f"'{name.rsplit('.', 1)[-1]}' is used by {listed(names)}"
    return JobError(user, detail=reasons, hint=hint)


def changed_objects(old: Catalog, plan: PlannedJob) -> set[str]:
    """Returns the objects of the old catalog that the plan defines differently."""
    both = [(old.objects[o.name], o) for o in plan.objects if o.name in old.objects]
    return {full_name(o.name) for before, o in both if not same_definition(before, o)}


def begin_of(text: str | None) -> str | int | None:
    """Returns where a job begins that is started as a new one; None if it goes on where it was.
    BadRequest for what is no place."""
    if text is None or text in BEGINS:
        return text
    try:
        return moment_ms(text)
    except ValueError:
        raise BadRequest(
            f"a job cannot start from '{text[:60]}'",
            hint=f"it is one of {', '.join(BEGINS)}, or a time such as 2026-01-31T12:00 (UTC)",
        ) from None
