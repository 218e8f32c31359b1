"""Tables, views, functions and databases that a client's statement defines for all: each is a job
of its own, `table.NAME`, which DROP removes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import md5
from itertools import count
from typing import Final, TypeAlias

from parser.definitions import CreateDatabase, CreateFunction, CreateTable, CreateView
from parser.errors import JobError, PlanError, SqlError, UnknownObject, UnsupportedError
from parser.statements import Drop, Kind
from parser.writer.statements import write
from planner.catalog import Catalog, Table
from planner.settings import RUNTIME_MODE
from sqlengine.access.policy import Action, require
from sqlengine.access.principals import Principal
from sqlengine.catalog.changes import database_of, described, unknown_database
from sqlengine.catalog.dropping import dropped_object
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from sqlengine.queries.insert_jobs import HOME, setting_lines, use_lines
from sqlengine.queries.owned_topics import check_delete, delete, make, owned_topic

Definition: TypeAlias = CreateTable | CreateView | CreateFunction
_DROPPED: Final = (Kind.TABLE, Kind.VIEW, Kind.FUNCTION)
# Of what is not plain in the name of an object, the name of its job has a hash.
_LONGEST: Final = 120


def define(
    engine: Engine,
    statement: Definition,
    catalog: Catalog,
    settings: Mapping[str, str],
    by: Principal,
) -> None:
    """Submits a definition as the job that defines its object. `settings`: those of its session.

    PlanError for an object that exists, JobError for one to replace that another job defines, and
    the SqlError for which the job is refused."""
    is_function = isinstance(statement, CreateFunction)
    name = (catalog.resolve_function if is_function else catalog.resolve)(statement.name)
    kind = _kind(statement)
    replaces = not isinstance(statement, CreateFunction) and statement.replace
    if name in catalog.objects:
        if statement.if_not_exists:
            return
        if not replaces:
            hint = _instead(statement)
            shown = ".".join(statement.name)
            place = statement.subject or statement.position
            raise PlanError(f"{kind.lower()} '{shown}' exists already", hint=hint, position=place)
        job = _check_own(engine, name, kind)
    else:
        job = _new_job(engine, name, kind)
    # No rows are read of it.
    settings = {k: v for k, v in settings.items() if k != RUNTIME_MODE}
    plain = replace(statement, if_not_exists=False)
    if replaces and not isinstance(plain, CreateFunction):
        plain = replace(plain, replace=False)
    lines = [*setting_lines(settings), *use_lines(HOME, (catalog.catalog, catalog.database))]
    require(by, Action.CHANGE_JOB, job)
    text = ";\n".join([*lines, write(plain)]) + ";\n"
    request = Request(Origin.REST, {job: JobText(job, text, None)}, by=by)
    if owned_topic(catalog.objects.get(name)) is not None:  # which goes with the table replaced
        _change(engine, replace(request, dry_run=True), job)
        gone = Drop(kind, statement.name, position=statement.position)
        drop(engine, gone, catalog, by)
    _change(engine, request, job)
    table = engine.catalog.objects.get(name)
    if isinstance(table, Table) and owned_topic(table) is not None:
        try:
            make(engine, table, by)
        except SqlError:
            engine.change(Request(Origin.REST, removes=frozenset({job}), by=by))
            raise


def _change(engine: Engine, request: Request, job: str) -> None:
    """Makes a change of one job. Raises the SqlError for which it is refused."""
    if (error := engine.change(request)[job].error) is not None:
        error.position = None  # it is one in a text that nobody has written
        raise error


def drop(engine: Engine, statement: Drop, catalog: Catalog, by: Principal) -> None:
    """Removes the job that defines an object, and the topic that is its own. UnknownObject where
    there is none, JobError for one that another job defines, or that jobs use."""
    kind = statement.kind
    if kind not in _DROPPED:
        raise UnsupportedError(
            f"DROP {kind.words} cannot be run here",
            hint="remove the job that defines it: sql remove",
            position=statement.position,
        )
    item = dropped_object(replace(catalog, temporary={}), statement)
    if item is None:
        if statement.if_exists:
            return
        shown, place = ".".join(statement.name), statement.subject or statement.position
        raise UnknownObject(f"{kind.lower()} '{shown}' does not exist", position=place)
    job = _check_own(engine, item.name, kind)
    require(by, Action.CHANGE_JOB, job)
    if (topic := owned_topic(item)) is not None:
        assert isinstance(item, Table)
        check_delete(engine, item, topic, by)
    outcome = engine.change(Request(Origin.REST, removes=frozenset({job}), by=by))[job]
    if outcome.error is not None:
        raise outcome.error
    if topic is not None:
        delete(engine, topic)


def create_database(
    engine: Engine, statement: CreateDatabase, catalog: Catalog, by: Principal
) -> None:
    """Submits CREATE DATABASE as a job of its own. PlanError for one that exists."""
    made = described(catalog, statement)
    name = made.name[:2]
    if name in catalog.databases:
        if statement.if_not_exists:
            return
        raise PlanError(
            f"database '{'.'.join(name)}' exists already",
            hint="write CREATE DATABASE IF NOT EXISTS",
            position=statement.position,
        )
    job = _new_job(engine, name, Kind.DATABASE)
    require(by, Action.CHANGE_JOB, job)
    text = write(replace(statement, name=name, if_not_exists=False)) + ";\n"
    _change(engine, Request(Origin.REST, {job: JobText(job, text, None)}, by=by), job)


def drop_database(engine: Engine, statement: Drop, catalog: Catalog, by: Principal) -> None:
    """Removes the job that defines a database. UnknownObject where there is none, JobError for one
    that another job defines, or in which there is something."""
    name = database_of(catalog, statement.name)
    if name not in catalog.databases:
        if statement.if_exists:
            return
        raise unknown_database(name, statement.subject or statement.position)
    job = _check_own(engine, name, Kind.DATABASE)
    require(by, Action.CHANGE_JOB, job)
    inside = sorted(n[2] for n in catalog.objects if n[:2] == name and n[2])
    if inside:
        raise JobError(
            f"database '{name[1]}' is not empty", detail=", ".join(inside), hint="drop these before"
        )
    _change(engine, Request(Origin.REST, removes=frozenset({job}), by=by), job)


def job_of(name: tuple[str, ...], kind: Kind) -> str:
    """Returns the name of the job that defines an object, or a database.

    >>> job_of(("default_catalog", "default_database", "events"), Kind.TABLE)
    'table.events'
    >>> job_of(("default_catalog", "shop"), Kind.DATABASE)
    'database.shop'
    """
    parts = name[2:] if name[:2] == HOME and name[2:] else name[1:] if name[0] == HOME[0] else name
    written = ".".join((kind.lower(), *parts))
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in written)
    if plain == written and len(plain) <= _LONGEST:
        return plain
    mark = md5("\0".join(name).encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{plain[:_LONGEST]}-{mark}"


def _instead(statement: Definition) -> str | None:
    """Returns what can be written where the object exists. As in Flink, only a table that takes the
    rows of a query can be replaced."""
    match statement:
        case CreateTable(query=None):
            return "write CREATE TABLE IF NOT EXISTS, or DROP TABLE before"
        case CreateTable() | CreateView():
            kind = _kind(statement)
            return f"write CREATE OR REPLACE {kind}, or DROP {kind} before"
    return None


def _kind(statement: Definition) -> Kind:
    match statement:
        case CreateTable():
            return Kind.TABLE
        case CreateView():
            return Kind.VIEW
    return Kind.FUNCTION


def _new_job(engine: Engine, name: tuple[str, ...], kind: Kind) -> str:
    """Returns a name for the job that is to define an object: another than its own, if that job has
    an object that was renamed."""
    own, taken = job_of(name, kind), {job.name for job in engine.jobs()}
    return next(job for n in count(1) if (job := own if n == 1 else f"{own}-{n}") not in taken)


def _check_own(engine: Engine, name: tuple[str, ...], kind: Kind) -> str:
    """Returns the job that defines an object and nothing else. JobError where others do, or where
    it defines more."""
    full = ".".join(name)
    definers = [j for j in engine.jobs() if full in j.defines]
    made = [j.name for j in definers if j.name.startswith(f"{kind.lower()}.")]
    if len(made) == len(definers) == 1 and set(definers[0].defines) == {full}:
        return made[0]
    found = ", ".join(f"'{j.name}'" for j in definers) or "no job"
    raise JobError(
        f"{kind.lower()} '{name[-1]}' is defined by {found}",
        detail=f"a statement changes what a statement has made, the job '{job_of(name, kind)}'",
        hint="change the text of that job: sql submit, sql remove",
    )
