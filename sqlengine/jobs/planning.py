"""Plans jobs: from a text to optimised plans and the objects that the job defines.

Pure, and all values pickle: large changes are planned in a child process."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from parser import parse
from parser.errors import JobError, SqlError, UnknownObject
from parser.limits import is_lifted, present, refused
from parser.rule_head import Field, rule_head
from planner.catalog import (
    Catalog,
    CatalogObject,
    Function,
    Identifier,
)
from planner.logical import Sink
from planner.plan import Trace
from planner.rule_settings import Status, at_head, rule_in, rule_settings
from sqlengine.functions.library import Library
from sqlengine.jobs.script import Script, apply
from sqlengine.jobs.unknown_options import UnknownOptions
from sqlengine.system.deadlines import Overdue, within
from udf.user import UserFunction

log = logging.getLogger("sqlengine")

# A text that may define objects which other jobs refer to.
DEFINES = re.compile(
    r"\b(CREATE|REPLACE)\s+(TABLE|VIEW|FUNCTION|DATABASE|CATALOG)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class JobText:
    """The text of a job as it was submitted. `modules`: the contents of users' modules, by their
    names in CREATE FUNCTION; other modules are taken from `uploads` (sources by file name), or from
    their files as they are now. `accepted`: it has been a version already, perhaps of an earlier
    release that took options which nobody reads; they do not matter now either. `by`: the principal
    that submits it; `loads`: patterns of the functions that it may load, None for any; `given`: the
    names of the secrets that whoever submitted it had written plainly; `promotes`: the version that
    has been a shadow and becomes live (0: it is a new one)."""

    name: str
    sql: str
    file: str | None = None
    modules: Mapping[str, str] = field(default_factory=dict)
    uploads: Mapping[str, str] = field(default_factory=dict)
    accepted: bool = False
    by: str = ""
    loads: tuple[str, ...] | None = None
    given: frozenset[str] = frozenset()
    promotes: int = 0


@dataclass(frozen=True)
class PlannedJob:
    """A job that can be merged into a graph.

    `sinks`: the optimised plans of its INSERTs, and of their late rows; `objects`: permanent
    objects that it defines; `uses`: objects of other jobs that it refers to; `modules`: the
    contents of the modules of its functions; `functions`: all functions of users that it calls or
    defines; `traces`: how the plans came about, where EXPLAIN asked for it; `warnings`: settings
    and options without effect."""

    name: str
    sinks: tuple[Sink, ...]
    objects: tuple[CatalogObject, ...] = ()
    uses: frozenset[Identifier] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[UserFunction, ...] = ()
    traces: tuple[Trace, ...] = ()
    warnings: tuple[str, ...] = ()


def at_rest(plan: PlannedJob) -> PlannedJob:
    """Returns what runs of a job: nothing of a draft, and of a rule that has been retired."""
    rule = rule_in(plan.settings)
    resting = rule is not None and rule.status in (Status.DRAFT, Status.RETIRED)
    return replace(plan, sinks=()) if resting else plan


def plan_job(
    job: JobText,
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None = None,
    *,
    traced: bool = False,
) -> PlannedJob:
    """Parses and plans one job, for EXPLAIN with the `traces` of its plans. SqlError with the file
    and the position, also for a text that is too long, or takes longer than 'planning-time'."""

    def work() -> PlannedJob:
        return _planned(job, catalog, settings, library, traced)

    if is_lifted():
        return work()
    _check_size(job)
    try:
        return within(present().planning_time, work)
    except Overdue:
        raise JobError(
            f"planning took more than {present().planning_time} s ('planning-time')",
            hint="split the text into several jobs, or its statements into simpler ones",
        ).in_file(job.file) from None


def _check_size(job: JobText) -> None:
    most = refused(len(job.sql), "text_size")
    if most is not None:
        raise JobError(
            f"the text has {len(job.sql):,} characters, at most {most:,} are allowed ('text-size')",
            hint="split it into several jobs",
        ).in_file(job.file)


def _planned(
    job: JobText,
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None,
    traced: bool,
) -> PlannedJob:
    warnings: list[str] = []
    options = UnknownOptions(warnings.append, job.accepted)
    script = _run(job, catalog, settings, library, traced, options)
    defined = {o.name for o in script.objects}
    return PlannedJob(
        job.name,
        tuple(script.sinks),
        tuple(script.objects),
        frozenset(u for u in script.uses - defined if u in catalog.objects),
        script.settings,
        script.modules,
        tuple(script.functions.values()),
        tuple(script.traces),
        tuple(warnings),
    )


def _run(
    job: JobText,
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None,
    traced: bool,
    options: UnknownOptions,
) -> Script:
    head: Mapping[str, Field] = {}
    try:
        head = rule_head(job.sql) or {}
        if library is not None and job.modules:
            catalog = with_functions(catalog, library.pinned(job.modules))
        statements = parse(job.sql, file=job.file)
        if not statements:
            raise JobError(
                "the job has no statement",
                hint="a job is a text with at least one CREATE or INSERT INTO",
            )
        script = Script(
            job.name,
            catalog,
            {**settings, **rule_settings(head)},
            library,
            job.modules,
            job.uploads,
            options,
            traced,
            loads=job.loads,
        )
        for statement in statements:
            apply(script, statement)
    except SqlError as error:
        raise at_head(error, head).in_file(job.file) from None
    return script


# `plan_job`, or a cache in front of it.
PlanJob: TypeAlias = Callable[[JobText, Catalog, Mapping[str, str], Library | None], PlannedJob]


def plan_jobs(
    jobs: Sequence[JobText],
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None = None,
    plan: PlanJob = plan_job,
) -> list[PlannedJob | SqlError]:
    """Plans many jobs in the order of their dependencies, and returns results in the order given.
    A job whose table is missing is planned again after others have defined theirs."""
    results: dict[int, PlannedJob | SqlError] = {}
    waiting = sorted(range(len(jobs)), key=lambda i: (not DEFINES.search(jobs[i].sql), i))
    while waiting:
        missing = []
        for i in waiting:
            results[i] = result = _try(plan, jobs[i], catalog, settings, library)
            if isinstance(result, UnknownObject):
                missing.append(i)
            elif isinstance(result, PlannedJob):
                catalog = with_objects(catalog, result)
        if len(missing) == len(waiting) or not any(_defines(results[i]) for i in waiting):
            break
        waiting = missing
    return [results[i] for i in range(len(jobs))]


def with_entry_points(catalog: Catalog, library: Library) -> Catalog:
    """The catalog with the functions of installed packages. One that cannot be used is left out,
    and logged."""
    functions: dict[str, UserFunction] = {}
    for name, function in dict(library.entry_points()).items():
        if isinstance(function, UserFunction):
            functions[name] = function
        else:
            log.error("function %s of an installed package cannot be used: %s", name, function)
    return with_functions(catalog, functions.items())


def with_functions(catalog: Catalog, functions: Iterable[tuple[str, UserFunction]]) -> Catalog:
    """The catalog with these system functions, which replace those of the same names."""
    system = {catalog.resolve_function((n,), system=True): f for n, f in functions}
    objects = {i: Function(i, f.place, "PYTHON", f) for i, f in system.items()}
    return replace(catalog, objects={**catalog.objects, **objects}) if objects else catalog


def with_objects(catalog: Catalog, job: PlannedJob) -> Catalog:
    """The catalog with the objects of a job that was planned against it, so that none clashes."""
    for item in job.objects:
        catalog = catalog.put(item)
    return catalog


def _try(
    plan: PlanJob,
    job: JobText,
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None,
) -> PlannedJob | SqlError:
    try:
        return plan(job, catalog, settings, library)
    except SqlError as error:
        return error


def _defines(result: PlannedJob | SqlError) -> bool:
    return isinstance(result, PlannedJob) and bool(result.objects)
