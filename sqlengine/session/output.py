"""Outputs of `sql run`: tables for people, rows as JSON, and events for tests."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from rich.console import Console
from rich.table import Table as RichTable

from parser.errors import SqlError, render
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.results import event, rows_of, schema_event

# A table is drawn for this number of rows, and the next one for as many more: a result without an
# end must be shown, too.
ROWS_PER_TABLE = 200


class EventOutput:
    """Writes a JSON line for each schema, row and error, with the number of the statement."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def schema(self, stmt: int, schema: Schema) -> None:
        self._line(event(stmt, "schema", columns=schema_event(schema)))

    def rows(self, stmt: int, batch: Batch) -> None:
        for op, row in rows_of(batch):
            self._out.write(event(stmt, "row", op=op, row=row) + "\n")
        self._out.flush()

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self._line(event(stmt, "error", message=str(error), title=error.title, hint=error.hint))

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class JsonOutput:
    """Writes each row as a JSON object by column name, with its kind under `op` if it is not +I."""

    def __init__(self, text: str, out: TextIO | None = None) -> None:
        self._text = text
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

    def error(self, stmt: int, error: SqlError) -> None:
        print(render(error, self._text), file=sys.stderr)


class TableOutput:
    """Draws tables for people; messages and errors go to standard error."""

    def __init__(self, text: str, console: Console | None = None) -> None:
        self._text = text
        self._console = console or Console()
        self._schema: Schema | None = None
        self._pending: list[list[str]] = []

    def schema(self, stmt: int, schema: Schema) -> None:
        self.flush()
        self._schema = schema

    def rows(self, stmt: int, batch: Batch) -> None:
        for op, row in rows_of(batch):
            self._pending.append([op, *("NULL" if v is None else str(v) for v in row)])
        if len(self._pending) >= ROWS_PER_TABLE:
            self.flush(keep_schema=True)

    def done(self, stmt: int, message: str) -> None:
        self.flush()
        if message != "OK":
            print(message, file=sys.stderr)

    def error(self, stmt: int, error: SqlError) -> None:
        self.flush()
        print(render(error, self._text), file=sys.stderr)

    def flush(self, keep_schema: bool = False) -> None:
        """Draws what is pending."""
        if self._schema is None:
            return
        if len(self._schema) == 1 and any("\n" in r[1] for r in self._pending):
            for row in self._pending:
                self._console.print(row[1], markup=False, highlight=False, soft_wrap=True)
        else:
            self._draw(self._schema)
        self._pending = []
        if not keep_schema:
            self._schema = None

    def _draw(self, schema: Schema) -> None:
        table = RichTable()
        updates = any(r[0] != "+I" for r in self._pending)
        for name in (*(["op"] if updates else []), *schema.names):
            table.add_column(name, overflow="fold")
        for row in self._pending:
            table.add_row(*(row if updates else row[1:]))
        self._console.print(table)
        self._console.print(f"{len(self._pending)} rows", highlight=False)
