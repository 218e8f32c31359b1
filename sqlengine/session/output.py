"""Outputs of `sql run`: what a printer shows, and events for tests."""

from __future__ import annotations

import sys
from typing import TextIO

from parser.errors import SqlError
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.results import event, rows_of, schema_event
from sqlengine.jobs.error_texts import rendered
from sqlengine.session.printers import ResultColumn, RowPrinter
from sqlengine.system.words import count, listed


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

    def end(self) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self._line(event(stmt, "error", message=str(error), title=error.title, hint=error.hint))

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class PrinterOutput:
    """Prints rows while they come; messages and errors go to standard error. An error that comes
    again elsewhere is counted, and told at the end.

    `text`: of the statements that run, for errors."""

    def __init__(self, printer: RowPrinter, *, messages: bool) -> None:
        self.text = ""
        self._printer = printer
        self._messages = messages
        self._columns: list[ResultColumn] | None = None
        self._began = False
        # Errors that were shown, and the places where they came again.
        self._again: dict[tuple[str, ...], list[str]] = {}

    def schema(self, stmt: int, schema: Schema) -> None:
        self.flush()
        self._columns = [(c.name, str(c.type)) for c in schema]

    def rows(self, stmt: int, batch: Batch) -> None:
        rows = list(rows_of(batch))
        if rows:
            self._begin()
            self._printer.rows(rows)

    def done(self, stmt: int, message: str) -> None:
        self.flush()
        if self._messages and message != "OK":
            print(message, file=sys.stderr)

    def error(self, stmt: int, error: SqlError) -> None:
        if not self._began:
            self._columns = None  # no rows came: there is nothing to draw
        self.flush()
        again = self._again.get(said := (error.title, error.reason, error.hint or ""))
        if again is None:
            self._again[said] = []
            print(rendered(error, self.text), file=sys.stderr)
        else:
            again.append(str(error.used_at or error.position or f"statement {stmt + 1}"))

    def end(self) -> None:
        """Ends the last result, and tells how often errors came that were shown once."""
        self.flush()
        for (title, reason, _), places in self._again.items():
            if places:
                statements = count(len(places), "more statement")
                told = f"{statements} with '{title}: {reason}', at {listed(places)}"
                print(told, file=sys.stderr)

    def flush(self) -> None:
        """Ends the result that is printed; one without rows is printed now."""
        if self._columns is not None:
            self._begin()
            self._printer.end()
        self._columns, self._began = None, False

    def _begin(self) -> None:
        if not self._began:
            assert self._columns is not None
            self._printer.begin(self._columns, changes=False)
        self._began = True
