"""Printers of result rows, which show rows as they come: as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Protocol, TypeAlias

from sqlengine.session.live_table import LiveTable, Screen, screen_of
from sqlengine.system.words import count

# The kind of a row (+I) and its values, as JSON has them.
ResultRow: TypeAlias = tuple[str, Sequence[object]]
# A column's name and its type.
ResultColumn: TypeAlias = tuple[str, str]


class RowPrinter(Protocol):
    """Prints the rows of one statement after the other."""

    def begin(self, columns: Sequence[ResultColumn], *, changes: bool) -> None:
        """Begins a result. `changes`: rows may be updated or deleted."""

    def rows(self, rows: Sequence[ResultRow]) -> None:
        """Prints rows at once."""

    def end(self) -> None:
        """Ends the result."""


class JsonRows:
    """Prints an object a row, by column name; with the kind under `op` if it is not +I."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out or sys.stdout
        self._names: list[str] = []

    def begin(self, columns: Sequence[ResultColumn], *, changes: bool) -> None:
        self._names = [name for name, _ in columns]

    def rows(self, rows: Sequence[ResultRow]) -> None:
        for op, values in rows:
            body = dict(zip(self._names, values, strict=True))
            body = body if op == "+I" else {"op": op, **body}
            self._out.write(json.dumps(body, ensure_ascii=False) + "\n")
        self._out.flush()

    def end(self) -> None: ...


class CsvRows:
    """Prints a header and a line a row (RFC 4180); NULL is empty. A result with changes has their
    kinds in a first column `op`."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out or sys.stdout
        self._changes = False

    def begin(self, columns: Sequence[ResultColumn], *, changes: bool) -> None:
        self._changes = changes
        names = [name for name, _ in columns]
        csv.writer(self._out, lineterminator="\n").writerow(["op", *names] if changes else names)

    def rows(self, rows: Sequence[ResultRow]) -> None:
        writer = csv.writer(self._out, lineterminator="\n")
        for op, values in rows:
            cells = [_csv_cell(v) for v in values]
            writer.writerow([op, *cells] if self._changes else cells)
        self._out.flush()

    def end(self) -> None:
        self._out.flush()


class TableRows:
    """Draws a table row by row (see `LiveTable`), and tells the number of rows on standard error.

    Where rows are updated or deleted that no column `op` was announced for, another table with it
    begins. `screen`: what to draw for (default: what `out` is)."""

    def __init__(self, out: IO[str] | None = None, *, screen: Screen | None = None) -> None:
        self._out = out or sys.stdout
        self._screen = screen_of(self._out) if screen is None else screen
        self._names: list[str] = []
        self._table: LiveTable | None = None
        self._changes = self._text = False
        self._count = 0

    def begin(self, columns: Sequence[ResultColumn], *, changes: bool) -> None:
        self._names = [name for name, _ in columns]
        self._changes, self._count, self._table, self._text = changes, 0, None, False

    def rows(self, rows: Sequence[ResultRow]) -> None:
        cells = [[_cell(v) for v in values] for _, values in rows]
        alone = self._table is None and len(self._names) == 1
        self._text = self._text or (alone and any("\n" in row[0] for row in cells))
        if self._text:
            self._out.writelines(row[0] + "\n" for row in cells)  # a plan, a CREATE TABLE
            self._out.flush()
        elif cells:
            self._draw([op for op, _ in rows], cells)
            self._count += len(rows)

    def end(self) -> None:
        if self._text:
            return
        (self._table or self._begun()).end()
        print(count(self._count, "row"), file=sys.stderr)

    def _draw(self, ops: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        if not self._changes and any(op != "+I" for op in ops):
            if self._table is not None:
                self._table.end()
            self._table, self._changes = None, True
        if self._changes:
            cells = [[op, *row] for op, row in zip(ops, cells, strict=True)]
        self._table = self._table or self._begun()
        self._table.rows(cells)

    def _begun(self) -> LiveTable:
        names = ["op", *self._names] if self._changes else self._names
        return LiveTable(self._out, names, self._screen)


PRINTERS: Mapping[str, Callable[[IO[str] | None], RowPrinter]] = {
    "table": TableRows,
    "json": JsonRows,
    "csv": CsvRows,
}


def _cell(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case list():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


def _csv_cell(value: object) -> str:
    return "" if value is None else _cell(value)
