"""From a job's text to its optimised plans and the objects that it defines. Pure, and everything here pickles: large
changes are planned in a child process."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from parser import parse
from parser.errors import JobError, OptionError, PlanError, SqlError, UnknownObject, UnsupportedError
from parser.statements import (
    CreateFunction,
    CreateTable,
    CreateView,
    Drop,
    Insert,
    Reset,
    Set,
    Statement,
    StatementSet,
    Use,
)
from planner import bind, optimize
from planner.binder.calls import user_function
from planner.binder.unsupported import refuse
from planner.catalog import SYSTEM, Catalog, CatalogObject, Function, Identifier, Table, View
from planner.logical import Sink
from planner.optimizer import disabled_passes
from planner.settings import RUNTIME_MODE, configured, is_batch
from sqlengine.connectors.registry import declared, delivered, validate
from sqlengine.functions.library import Library, entry_key, key_of
from udf.user import UserFunction

log = logging.getLogger("sqlengine")

# A definition that others can name.
_DEFINES = re.compile(r"\bCREATE\s+(TABLE|VIEW|FUNCTION)\b", re.IGNORECASE)


@dataclass(frozen=True)
class JobText:
    """What somebody submitted under a name. `modules`: the contents of users' modules that it means, by what its CREATE
    FUNCTION say; those that are not there are taken from `uploads` (sources by file name), or as their files are now."""

    name: str
    sql: str
    file: str | None = None
    modules: Mapping[str, str] = field(default_factory=dict)
    uploads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedJob:
    """`sinks`: one optimised plan an INSERT; `objects`: what it defines for all; `uses`: what it names of others;
    `modules`: the contents of the modules that its own functions come from; `functions`: all that it calls or defines."""

    name: str
    sinks: tuple[Sink, ...]
    objects: tuple[CatalogObject, ...] = ()
    uses: frozenset[Identifier] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[UserFunction, ...] = ()


@dataclass(frozen=True)
class BoundJob:
    """A job's INSERTs before any pass, and the passes that it switches off."""

    plans: tuple[Sink, ...]
    disabled: frozenset[str]


@dataclass
class _Script:
    """What the statements of one job have said so far."""

    name: str
    catalog: Catalog
    settings: dict[str, str]
    library: Library | None
    pinned: Mapping[str, str]
    uploads: Mapping[str, str]
    bound: list[Sink] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    objects: list[CatalogObject] = field(default_factory=list)
    uses: set[Identifier] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)
    functions: dict[str, UserFunction] = field(default_factory=dict)

    def load(self, statement: CreateFunction) -> UserFunction:
        """What a CREATE FUNCTION names; one module has one content throughout the job."""
        if self.library is None:
            raise UnsupportedError("functions of users cannot be loaded here", position=statement.position)
        user = self.library.load(statement, {**self.pinned, **self.modules}, self.uploads)
        self.modules[key_of(statement)] = user.content
        self.functions[user.identity] = user
        return user


def plan_job(job: JobText, catalog: Catalog, settings: Mapping[str, str], library: Library | None = None) -> PlannedJob:
    """Parses, binds and optimises one job. SqlError names the file and the place."""
    script = _run(job, catalog, settings, library)
    defined = {o.name for o in script.objects}
    uses = frozenset(u for u in script.uses - defined if u in catalog.objects)
    functions = tuple(script.functions.values())
    return PlannedJob(
        job.name, tuple(script.sinks), tuple(script.objects), uses, script.settings, script.modules, functions
    )


def bind_job(job: JobText, catalog: Catalog, settings: Mapping[str, str], library: Library | None = None) -> BoundJob:
    """Parses and binds one job, for EXPLAIN."""
    script = _run(job, catalog, settings, library)
    return BoundJob(tuple(script.bound), disabled_passes(script.settings))


def _run(job: JobText, catalog: Catalog, settings: Mapping[str, str], library: Library | None) -> _Script:
    try:
        if library is not None and job.modules:
            catalog = with_functions(catalog, library.pinned(job.modules))
        statements = parse(job.sql, file=job.file)
        if not statements:
            raise JobError("the job has no statement", hint="a job is a text with at least one CREATE or INSERT INTO")
        script = _Script(job.name, catalog, dict(settings), library, job.modules, job.uploads)
        for statement in statements:
            _apply(script, statement)
    except SqlError as error:
        raise error.in_file(job.file) from None
    return script


def _apply(script: _Script, statement: Statement) -> None:
    try:
        refuse(statement)
        match statement:
            case Set() if statement.key is not None:
                _set(script, statement.key, statement.value or "")
            case Reset():
                script.settings.pop(statement.key or "", None)
            case Use():
                script.catalog = use(script.catalog, statement)
            case CreateTable() | CreateView() | CreateFunction():
                _define(script, statement)
            case Drop():
                script.catalog = drop_temporary(script.catalog, statement)
            case Insert() | StatementSet():
                _insert(script, statement)
            case _:
                kind = type(statement).__name__.upper()
                raise UnsupportedError(f"{kind} has no place in a job", hint="run it with 'sql run' instead")
    except SqlError as error:
        raise error.at(statement.position) from None


def _set(script: _Script, key: str, value: str) -> None:
    if key == "job.state" and value == "keep":
        raise UnsupportedError(
            "state cannot be kept over a changed statement yet",
            hint="without this setting state is kept where nothing below it changed; 'sql validate' shows what is",
        )
    script.settings[key] = value
    if key == RUNTIME_MODE and is_batch(script.settings):
        hint = "run the script with 'sql run'"
        raise UnsupportedError("batch mode is not supported for jobs: their input has no end", hint=hint)


def use(catalog: Catalog, statement: Use) -> Catalog:
    """After USE; refuses a catalog or database that does not exist."""
    name = statement.name
    if statement.catalog:
        if all(c != name[0] for c, _ in catalog.databases):
            raise PlanError(f"catalog '{name[0]}' does not exist", position=statement.position)
        return catalog.with_use(catalog=name[0])
    target = (catalog.catalog, name[0]) if len(name) == 1 else (name[0], name[1])
    if target not in catalog.databases:
        raise PlanError(f"database '{'.'.join(target)}' does not exist", position=statement.position)
    return catalog.with_use(catalog=target[0], database=target[1])


def drop_temporary(catalog: Catalog, statement: Drop) -> Catalog:
    """After DROP of a job's own object. What all share goes with the job that defines it."""
    held = held_object(catalog, statement)
    if held is None:
        if statement.if_exists:
            return catalog
        raise UnknownObject(
            f"{statement.kind.lower()} '{'.'.join(statement.name)}' does not exist", position=statement.subject
        )
    if not held.temporary:
        raise JobError(
            f"'{held.name[2]}' belongs to the job that defines it",
            hint="remove that job ('sql remove JOB'), or use CREATE TEMPORARY for a private object",
        )
    return catalog.drop(held.name)


def held_object(catalog: Catalog, statement: Drop) -> CatalogObject | None:
    """What DROP names, if it is there."""
    if statement.kind == "FUNCTION":
        name = catalog.resolve_function(statement.name, system=statement.system)
        return catalog.temporary.get(name) or (None if statement.temporary else catalog.objects.get(name))
    held = catalog.get(statement.name)
    kinds: dict[str, type[CatalogObject]] = {"TABLE": Table, "VIEW": View}
    return held if isinstance(held, kinds[statement.kind]) else None


def _define(script: _Script, statement: CreateTable | CreateView | CreateFunction) -> None:
    item = bind(statement, script.catalog, script.settings, job=script.name, load=script.load)
    assert isinstance(item, Table | View | Function)
    if isinstance(item, Table):
        assert isinstance(statement, CreateTable)
        item = declared(item)
        _validate(item, statement)
    script.catalog = script.catalog.put(item, if_not_exists=statement.if_not_exists)
    for expression in expressions_of(statement):
        _use(script, expression)
    if not item.temporary:
        script.objects.append(item)


def _validate(table: Table, statement: CreateTable) -> None:
    """Flink finds a wrong option when the table is used; the author of a job wants to know now, and where it stands. An
    option of a format is called without the name of the format."""
    try:
        validate(table)
    except OptionError as error:
        places = {key.removeprefix(f"{table.options.get('format')}."): p for key, p in statement.option_places.items()}
        raise error.at((dict(statement.option_places) | places).get(error.subject or "")) from None


def _insert(script: _Script, statement: Insert | StatementSet) -> None:
    plans = bind(statement, script.catalog, script.settings, job=script.name)
    assert isinstance(plans, tuple)
    disabled = disabled_passes(script.settings)
    for bound in plans:
        plan = configured(delivered(bound, script.settings), script.settings)
        place = len(script.sinks)
        script.bound.append(plan)
        optimised = optimize(plan, disabled=disabled)
        assert isinstance(optimised, Sink)
        script.sinks.append(Sink(optimised.input, optimised.table, script.name, place))
    for insert in statement.inserts if isinstance(statement, StatementSet) else (statement,):
        _use(script, insert.query)
        script.uses.add(script.catalog.resolve(insert.target))


def _use(script: _Script, query: exp.Expression) -> None:
    """Notes the tables, views and functions that a query names."""
    script.uses |= _names(query, script.catalog)
    for function in called(query, script.catalog):
        script.functions[function.user.identity] = function.user
        if function.name[:2] == SYSTEM and not function.temporary:
            script.modules[entry_key(function.display, function.user.place)] = function.user.content
        elif not function.temporary:
            script.uses.add(function.name)


def expressions_of(statement: CreateTable | CreateView | CreateFunction) -> list[exp.Expression]:
    """Queries and expressions in a definition."""
    if isinstance(statement, CreateView):
        return [statement.query]
    if isinstance(statement, CreateFunction):
        return []
    found = [c.expression for c in statement.columns if c.expression is not None]
    return [*found, statement.watermark.expression] if statement.watermark else found


def called(query: exp.Expression, catalog: Catalog) -> list[Function]:
    """Functions of users that a query calls."""
    found = (user_function(call, catalog) for call in query.find_all(exp.Anonymous))
    return [f for f in found if f is not None]


def _names(query: exp.Expression, catalog: Catalog) -> set[Identifier]:
    """Tables and views that a query names (names of its own CTEs are among them, but stand for no object)."""
    found = set()
    for table in query.find_all(exp.Table):
        parts = tuple(p.name for p in table.parts if isinstance(p, exp.Identifier))
        if 1 <= len(parts) <= 3:
            found.add(catalog.resolve(parts))
    return found


# `plan_job`, or what remembers its answers.
PlanJob: TypeAlias = Callable[[JobText, Catalog, Mapping[str, str], Library | None], PlannedJob]


def plan_jobs(
    jobs: Sequence[JobText],
    catalog: Catalog,
    settings: Mapping[str, str],
    library: Library | None = None,
    plan: PlanJob = plan_job,
) -> list[PlannedJob | SqlError]:
    """Plans many jobs in the order of their dependencies; results in the order given. A job whose table is missing is
    tried again after others have defined theirs."""
    results: dict[int, PlannedJob | SqlError] = {}
    waiting = sorted(range(len(jobs)), key=lambda i: (not _DEFINES.search(jobs[i].sql), i))
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
    """The catalog with the functions that installed packages offer. One that cannot be used is left out, and logged."""
    found = dict(library.entry_points())
    for name, error in found.items():
        if isinstance(error, SqlError):
            log.error("function %s of an installed package cannot be used: %s", name, error)
    return with_functions(catalog, ((n, f) for n, f in found.items() if isinstance(f, UserFunction)))


def with_functions(catalog: Catalog, functions: Iterable[tuple[str, UserFunction]]) -> Catalog:
    """The catalog with system functions by name, in the place of those of these names."""
    system = {catalog.resolve_function((n,), system=True): f for n, f in functions}
    objects = {i: Function(i, f.place, "PYTHON", f) for i, f in system.items()}
    return replace(catalog, objects={**catalog.objects, **objects}) if objects else catalog


def with_objects(catalog: Catalog, job: PlannedJob) -> Catalog:
    """The catalog with what the job defines (it was planned against this catalog, so nothing clashes)."""
    for item in job.objects:
        catalog = catalog.put(item)
    return catalog


def _try(
    plan: PlanJob, job: JobText, catalog: Catalog, settings: Mapping[str, str], library: Library | None
) -> PlannedJob | SqlError:
    try:
        return plan(job, catalog, settings, library)
    except SqlError as error:
        return error


def _defines(result: PlannedJob | SqlError) -> bool:
    return isinstance(result, PlannedJob) and bool(result.objects)
