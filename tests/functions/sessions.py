"""Scripts with functions of a module: a session in which they are declared, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from parser.errors import SqlError
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.functions.limits import FunctionLimits
from sqlengine.session import ROWS_PER_READ
from sqlengine.session.environment import open_runner, script_library
from sqlengine.session.session import Session


class Recorder:
    """What a script gives: rows by statement, or the error. Statements count from 0, though the
    session ran others before."""

    def __init__(self) -> None:
        self._first: int | None = None
        self.rows_of: dict[int, list[tuple[object, ...]]] = {}
        self.errors: dict[int, SqlError] = {}

    def schema(self, stmt: int, schema: Schema) -> None:
        self.rows_of[self._number(stmt)] = []

    def rows(self, stmt: int, batch: Batch) -> None:
        self.rows_of[self._number(stmt)] += [
            tuple(row.values()) for row in batch.to_table().to_pylist()
        ]

    def done(self, stmt: int, message: str) -> None:
        self._number(stmt)

    def error(self, stmt: int, error: SqlError) -> None:
        self.errors[self._number(stmt)] = error

    def _number(self, stmt: int) -> int:
        self._first = stmt if self._first is None else self._first
        return stmt - self._first


@contextmanager
def opened(
    folder: Path,
    source: str,
    names: Sequence[str],
    limits: FunctionLimits | None = None,
    tables: str = "",
    rows_per_read: int = ROWS_PER_READ,
) -> Iterator[Session]:
    """A session with these functions of the module `mine`, whose source is put into the folder, and
    with tables that a script makes."""
    (folder / "mine.py").write_text(source)
    with (
        open_runner(folder / "data", rows_per_read) as runner,
        script_library(folder / "data", str(folder / "s.sql")) as library,
    ):
        given = library if limits is None else replace(library, limits=limits)
        recorder = Recorder()
        session = Session(runner, recorder, library=given)
        creates = (f"CREATE TEMPORARY FUNCTION {n} AS 'mine.{n}' LANGUAGE PYTHON;" for n in names)
        session.run("".join(creates) + "SET 'job.on-error' = 'dead-letter';" + tables)
        assert recorder.errors == {}
        yield session


def run(session: Session, sql: str) -> list[tuple[object, ...]]:
    """The rows of one query; raises its error."""
    session.output = recorder = Recorder()
    session.run(sql)
    if recorder.errors:
        raise recorder.errors[0]
    return recorder.rows_of[0]
