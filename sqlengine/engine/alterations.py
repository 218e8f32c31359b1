"""ALTER TABLE and ALTER VIEW as statements of a server: the job that defines the object gets a new
version, whose text has the statement behind the definition.

So there is one text that says what the object is, with a history to roll back to, and the jobs that
use the object change along as they do when that text is submitted."""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate

from parser import parse_pieces
from parser.alterations import Alter, ResetOptions, SetOptions
from parser.definitions import CreateTable, CreateView, Kind
from parser.errors import JobError, UnsupportedError
from parser.script import split
from planner.catalog import CatalogObject, Identifier, Table
from sqlengine.access.policy import Action, require
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.engine.engine import Engine
from sqlengine.engine.requests import Outcome
from sqlengine.jobs.job import Job, Origin

_KINDS = (Kind.TABLE, Kind.VIEW)


def alter(
    engine: Engine, statement: Alter, written: str, origin: Origin, by: Principal = TRUSTED
) -> Outcome:
    """Submits the text of the job that defines the object again, with the statement in it.

    `written`: the statement's text. Raises JobError where no job, or more than one, defines the
    object, UnsupportedError for what is neither a table nor a view, and the SqlError of a change
    that is refused: then everything runs on as it was."""
    if statement.temporary or statement.kind not in _KINDS:
        raise UnsupportedError(
            "this object is not altered by a statement of the server",
            detail="ALTER TABLE and ALTER VIEW change what all jobs see",
            hint="change the text of the job that defines it: 'sql submit'",
        )
    name = engine.catalog.resolve(statement.name)
    job = _definer(engine, name)
    _check_topic(statement, engine.catalog.objects.get(name))
    require(by, Action.CHANGE_JOB, job.name)
    text = engine.history(job.name)[-1].sql
    return engine.submit(job.name, _with(text, written, name), origin, by=by)


def _check_topic(statement: Alter, table: CatalogObject | None) -> None:
    """Raises UnsupportedError for another topic that would be a table's own, and go with it."""
    action = statement.action
    changed: Collection[str] = action.options if isinstance(action, SetOptions) else ()
    changed = action.keys if isinstance(action, ResetOptions) else changed
    owns = isinstance(table, Table) and "topic.owned" in table.options
    if "topic.owned" in changed or (owns and "topic" in changed):
        raise UnsupportedError(
            "'topic.owned' counts for the topic that CREATE TABLE has made",
            hint="define another table, and move the rows: INSERT INTO … SELECT",
            position=statement.position,
        )


def _definer(engine: Engine, name: Identifier) -> Job:
    jobs = [job for job in engine.jobs() if ".".join(name) in job.defines]
    if len(jobs) == 1:
        return jobs[0]
    shown = name[2]
    if not jobs:
        raise JobError(f"no job defines '{shown}'", hint="'SHOW TABLES' lists what there is")
    raise JobError(
        f"'{shown}' is defined by {', '.join(sorted(j.name for j in jobs))}, in equal words",
        hint="submit these jobs together with the new definition: 'sql submit FOLDER'",
    )


def _with(text: str, written: str, name: Identifier) -> str:
    """Puts a statement behind the last one of the text that defines or alters the object: those
    that use it come later."""
    lengths = (len(line) for line in text.splitlines(keepends=True))
    lines = list(accumulate(lengths, initial=0))
    end = 0
    for piece, parsed in zip(split(text), parse_pieces(text), strict=True):
        if isinstance(parsed, CreateTable | CreateView | Alter) and parsed.name[-1] == name[2]:
            place = piece.position
            end = lines[place.line - 1] + place.column - 1 + len(piece.sql)
    return f"{text[:end]};\n{written}{text[end:] or ';'}"
