"""INSERTs of a session as jobs: their names, their ids, and their texts, which have all that they
use of the session."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import md5

from sqlglot import exp

from parser.definitions import CreateFunction
from parser.errors import JobError, Position
from parser.statements import Insert, StatementSet
from parser.writer.names import backticked, quoted
from parser.writer.statements import write
from planner.binder.derived import definition_of
from planner.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Catalog,
    CatalogObject,
    Container,
    Function,
    Identifier,
    Table,
    View,
)
from planner.optimizer import PREFIX
from planner.setting_keys import EFFECTIVE
from planner.settings import UNKNOWN_OPTIONS
from sqlengine.access.principals import Principal
from sqlengine.catalog.changes import view_of
from sqlengine.catalog.create_text import create_text
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin, check_name
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.references import called, expressions_of, names_of
from sqlengine.queries.query import TURN_S, Query

NAME = "pipeline.name"
HOME = (DEFAULT_CATALOG, DEFAULT_DATABASE)
_GO_ON = (JobState.RUNNING, JobState.RESTARTING, JobState.WAITING)


def job_id(name: str) -> str:
    """Returns the id by which Flink's clients know a job: 32 hexadecimal digits."""
    return md5(name.encode(), usedforsecurity=False).hexdigest()


def new_name(statement: Insert | StatementSet, settings: Mapping[str, str]) -> str:
    """Returns the name of the job that a statement becomes: as 'pipeline.name' says, or one that
    nobody has. JobError for what is no name of a job."""
    if settings.get(NAME):
        return check_name(settings[NAME])
    target = "set" if isinstance(statement, StatementSet) else statement.target[-1]
    readable = "".join(c if c.isascii() and c.isalnum() else "_" for c in target)
    return f"insert_{readable[:100]}_{uuid.uuid4().hex[:8]}"


def submit(engine: Engine, name: str, text: str, by: Principal, *, replaces: bool = False) -> None:
    """Adds a job. Raises the SqlError for which it is refused; JobError for a name that another
    job has, unless it `replaces` that: a job of Flink never takes the place of another."""
    if not replaces and any(job.name == name for job in engine.jobs()):
        raise JobError(
            f"job '{name}' exists already",
            hint=f"SET '{NAME}' to another name; `sql submit` replaces a job",
        )
    request = Request(Origin.REST, {name: JobText(name, text, None)}, by=by)
    error = engine.change(request)[name].error
    if error is not None:
        error.position = None  # it is one in a text that nobody has written
        raise error


def wait_for_end(engine: Engine, name: str, query: Query) -> None:
    """Waits until a job has ended, and stops it when who waits is gone, as Flink does. JobError for
    one that was stopped or failed: it is not done; QueryEnded where that has taken too long."""
    while (job := engine.log.jobs.get(name)) is not None and job.state in _GO_ON:
        if query.abandoned:
            engine.stop_job(name)
            query.check()
            return
        time.sleep(TURN_S)
    state, reason = ("removed", None) if job is None else (job.state.value, job.reason)
    raise JobError(f"job '{name}' is {state}, and was waited for", detail=reason)


def text_of(
    statement: Insert | StatementSet,
    catalog: Catalog,
    own: Mapping[Identifier, CatalogObject],
    settings: Mapping[str, str],
) -> str:
    """Returns the text of the job that a statement becomes. `own`: objects of its session, which
    the job has as temporary ones; `settings`: those of the session."""
    lines = setting_lines(settings)
    containers = [o for o in own.values() if isinstance(o, Container)]
    lines += [_container(o) for o in sorted(containers, key=lambda o: bool(o.name[1]))]
    here = HOME
    for item in _needed(statement, catalog, own):
        home = item.home if isinstance(item, View) else here
        lines += use_lines(here, home)
        here = home
        lines.append(_temporary(item))
    lines += use_lines(here, (catalog.catalog, catalog.database))
    return ";\n".join([*lines, write(statement)]) + ";\n"


def setting_lines(settings: Mapping[str, str]) -> list[str]:
    """Returns SET for the settings that have an effect on jobs."""
    # The one that says what becomes of others, and of options, goes first.
    keys = sorted(filter(_counts, settings), key=lambda k: (k != UNKNOWN_OPTIONS, k))
    return [f"SET {quoted(k)} = {quoted(settings[k])}" for k in keys]


def _counts(key: str) -> bool:
    """True for a setting that has an effect on jobs here."""
    return key in EFFECTIVE or key.startswith(PREFIX)


def use_lines(here: tuple[str, str], there: tuple[str, str]) -> list[str]:
    """Returns the USE that leads from one database to another, if they are two."""
    if here == there:
        return []
    return [f"USE {backticked(there[0])}.{backticked(there[1])}"]


def _container(item: Container) -> str:
    kind = "DATABASE" if item.name[1] else "CATALOG"
    return create_text(item).strip().replace(kind, f"{kind} IF NOT EXISTS", 1)


def _temporary(item: CatalogObject) -> str:
    """Returns the statement that defines an object for one job, with its passwords."""
    if isinstance(item, Table):
        return write(replace(definition_of(item), name=item.name, temporary=True))
    if isinstance(item, View):
        return write(replace(view_of(item), name=item.name, temporary=True))
    assert isinstance(item, Function)
    name = (*item.name[:2], item.display)
    nowhere = Position(1, 1)
    return write(
        CreateFunction(name, item.class_name, item.language, temporary=True, position=nowhere)
    )


def _needed(
    statement: Insert | StatementSet, catalog: Catalog, own: Mapping[Identifier, CatalogObject]
) -> Iterable[CatalogObject]:
    """Returns the session's objects that a statement uses, each behind those that it uses."""
    found: dict[Identifier, CatalogObject] = {}

    def visit(name: Identifier) -> None:
        item = own.get(name)
        if item is None or name in found or isinstance(item, Container):
            return
        for used in _uses_of(item, catalog):
            visit(used)
        found[name] = item

    inserts = statement.inserts if isinstance(statement, StatementSet) else (statement,)
    for insert in inserts:
        for name in (*_names(insert.query, catalog), catalog.resolve(insert.target)):
            visit(name)
    return found.values()


def _uses_of(item: CatalogObject, catalog: Catalog) -> Iterator[Identifier]:
    if isinstance(item, View):
        home = catalog.with_use(catalog=item.home[0], database=item.home[1])
        yield from _names(view_of(item).query, home)
    elif isinstance(item, Table):
        for expression in expressions_of(definition_of(item)):
            yield from _names(expression, catalog)


def _names(query: exp.Expression, catalog: Catalog) -> Iterator[Identifier]:
    yield from names_of(query, catalog)
    yield from (function.name for function in called(query, catalog))
