"""Outputs of `sql run`: tables for people, rows as JSON, and events for tests."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from rich.console import Console

from parser.errors import SqlError, render
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.results import event, rows_of, schema_event
from sqlengine.session.live_table import LiveTable


class EventOutput:
    """Writes a JSON line for each schema, row and error, with the number of the statement."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.text = ""
        self._out = out or sys.stdout

    def schema(self, stmt: int, schema: Schema) -> None:
        self._line(event(stmt, "schema", columns=schema_event(schema)))

    def rows(self, stmt: int, batch: Batch) -> None:
        for op, row in rows_of(batch):
            self._out.write(event(stmt, "row", op=op, row=row) + "\n")
        self._out.flush()

    def done(self, stmt: int, message: str) -> None: ...

    def flush(self) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self._line(event(stmt, "error", message=str(error), title=error.title, hint=error.hint))

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class JsonOutput:
    """Writes each row as a JSON object by column name, with its kind under `op` if it is not +I.

    `text`: of the statements that run, for errors."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.text = ""
        self._names: tuple[str, ...] = ()
        self._out = out or sys.stdout

    def schema(self, stmt: int, schema: Schema) -> None:
        self._names = schema.names

    def rows(self, stmt: int, batch: Batch) -> None:
        for op, row in rows_of(batch):
            body: dict[str, object] = dict(zip(self._names, row, strict=True))
            if op != "+I":
                body = {"op": op, **body}
            self._out.write(json.dumps(body, ensure_ascii=False) + "\n")
        self._out.flush()

    def done(self, stmt: int, message: str) -> None: ...

    def flush(self) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        print(render(error, self.text), file=sys.stderr)


def _shown(value: object) -> str:
    """Returns a value as Flink's client shows it."""
    if value is None:
        return "NULL"
    return str(value).upper() if isinstance(value, bool) else str(value)


class TableOutput:
    """Draws tables for people while their rows come; messages and errors go to standard error.

    `text`: of the statements that run, for errors."""

    def __init__(self, console: Console | None = None) -> None:
        self.text = ""
        self._console = console or Console()
        self._names: tuple[str, ...] | None = None
        self._table: LiveTable | None = None
        self._changes = self._printed = False
        self._count = 0

    def schema(self, stmt: int, schema: Schema) -> None:
        self.flush()
        self._names, self._count = schema.names, 0
        self._changes = self._printed = False

    def rows(self, stmt: int, batch: Batch) -> None:
        assert self._names is not None
        rows = [(op, [_shown(v) for v in row]) for op, row in rows_of(batch)]
        if not rows:
            return
        if self._table is None and len(self._names) == 1 and any("\n" in r[0] for _, r in rows):
            self._texts([row[0] for _, row in rows])
            return
        if not self._changes and any(op != "+I" for op, _ in rows):
            self._end()  # the rows from here on say what they do to those above
            self._changes = True
        if self._table is None:
            names = ("op", *self._names) if self._changes else self._names
            self._table = LiveTable(self._console, names)
        self._count += len(rows)
        self._table.rows([[op, *row] if self._changes else row for op, row in rows])

    def done(self, stmt: int, message: str) -> None:
        self.flush()
        if message != "OK":
            print(message, file=sys.stderr)

    def error(self, stmt: int, error: SqlError) -> None:
        if self._table is None:
            self._names = None  # no rows came: there is nothing to draw
        self.flush()
        print(render(error, self.text), file=sys.stderr)

    def flush(self) -> None:
        """Ends the table that is drawn; one without rows is drawn now."""
        if self._names is not None and self._table is None and not self._printed:
            self._table = LiveTable(self._console, self._names)
        if self._table is not None:
            self._end()
            rows = "row" if self._count == 1 else "rows"
            self._console.print(f"{self._count} {rows}", highlight=False)
        self._names = None

    def _texts(self, texts: list[str]) -> None:
        """Prints values of several lines, such as a plan, as they are."""
        self._printed = True
        for text in texts:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _end(self) -> None:
        if self._table is not None:
            self._table.end()
        self._table = None
