"""Printers of result rows, which show rows as they come: as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final, Protocol, TypeAlias
from unicodedata import combining, east_asian_width

from sqlengine.cli.tables import count

# The kind of a row (+I) and its values, as JSON has them.
ResultRow: TypeAlias = tuple[str, Sequence[object]]
# A column's name and its type.
ResultColumn: TypeAlias = tuple[str, str]

_WIDEST: Final = 60


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
    """Draws a table row by row: with lines on a terminal, plain columns for pipes. The columns are
    as wide as the first rows need; what is longer later moves its line, nothing is cut off."""

    def __init__(self, out: IO[str] | None = None, *, lines: bool | None = None) -> None:
        self._out = out or sys.stdout
        self._lines = self._out.isatty() if lines is None else lines
        self._names: list[str] = []
        self._widths: list[int] = []
        self._changes = False
        self._count = 0

    def begin(self, columns: Sequence[ResultColumn], *, changes: bool) -> None:
        names = [name for name, _ in columns]
        self._names = ["op", *names] if changes else names
        self._changes, self._count, self._widths = changes, 0, []

    def rows(self, rows: Sequence[ResultRow]) -> None:
        cells = [[_cell(v) for v in values] for _, values in rows]
        if self._changes:
            cells = [[op, *row] for (op, _), row in zip(rows, cells, strict=True)]
        self._count += len(rows)
        if len(self._names) == 1 and any("\n" in row[0] for row in cells):
            self._out.writelines(row[0] + "\n" for row in cells)  # a plan, a CREATE TABLE
            self._widths = self._widths or [0]
        elif cells:
            self._draw([[c.replace("\n", "\\n") for c in row] for row in cells])
        self._out.flush()

    def end(self) -> None:
        if not self._widths:
            self._draw([])
        self._out.flush()
        if self._lines:
            print(count(self._count, "row"), file=sys.stderr)

    def _draw(self, cells: Sequence[Sequence[str]]) -> None:
        if not self._widths:
            columns = zip(self._names, *cells, strict=True)
            self._widths = [min(_WIDEST, max(map(_width, column))) for column in columns]
            self._line(self._names)
            if self._lines:
                self._out.write("┼".join("─" * (w + 2) for w in self._widths) + "\n")
        for row in cells:
            self._line(row)

    def _line(self, cells: Sequence[str]) -> None:
        padded = [c + " " * (w - _width(c)) for c, w in zip(cells, self._widths, strict=True)]
        text = " " + " │ ".join(padded) if self._lines else "  ".join(padded)
        self._out.write(text.rstrip() + "\n")


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


def _width(text: str) -> int:
    """Returns the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
