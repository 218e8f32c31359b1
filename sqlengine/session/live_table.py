"""A table that is drawn while its rows come: with lines on a terminal, plain columns for pipes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import IO, Final, NamedTuple
from unicodedata import combining, east_asian_width

from sqlengine.system.terminal import obeying, visible

Cells = Sequence[str]

_LEAST_WIDTH: Final = 8
# Of rows that come later nothing is known: one long value must not push all columns away.
_WIDEST: Final = 60
_BOLD: Final = "\x1b[1m", "\x1b[0m"


class Screen(NamedTuple):
    """The thing that a table is drawn for: a terminal of some width, or a pipe (None). `bold`: the
    terminal shows it; `ascii`: its encoding has no lines."""

    width: int | None
    bold: bool = False
    ascii: bool = False


def screen_of(out: IO[str]) -> Screen:
    """Returns what `out` is."""
    if not out.isatty():
        return Screen(None)
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") in ("dumb", None)
    try:
        "┏│".encode(getattr(out, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return Screen(shutil.get_terminal_size().columns, not plain, ascii=True)
    return Screen(shutil.get_terminal_size().columns, not plain)


class LiveTable:
    """Draws the head for its first rows, then rows at once, then the foot.

    A column is as wide as the longest value so far. On a terminal the table is kept as narrow as
    the screen, if it can be: longer values take several lines. In a pipe a row is a line and
    nothing is cut off; columns are padded to at most `widest` there.
    """

    def __init__(
        self,
        out: IO[str],
        names: Cells,
        screen: Screen | None = None,
        *,
        widest: int | None = _WIDEST,
    ) -> None:
        self._names = [visible(name) for name in names]
        self._screen = screen_of(out) if screen is None else screen
        # Cells of a drawn table are visible by themselves, and its head is bold.
        self._out = out if self._screen.width is None else obeying(out)
        self._widest = widest
        self._widths: list[int] = []

    def rows(self, rows: Sequence[Cells]) -> None:
        """Draws rows, and the head before the first."""
        lines = self._plain(rows) if self._screen.width is None else self._boxed(rows)
        self._out.writelines(f"{line}\n" for line in lines)
        self._out.flush()

    def end(self) -> None:
        """Draws the foot, and the head of a table without rows."""
        if not self._widths:
            self.rows([])
        if self._screen.width is not None:
            self._out.write(self._border("└─┴┘") + "\n")
            self._out.flush()

    def _plain(self, rows: Sequence[Cells]) -> Iterable[str]:
        rows = [[cell.replace("\n", "\\n") for cell in row] for row in rows]
        begun = bool(self._widths)
        if not begun:
            self._widths = [min(self._widest or n, n) for n in _wanted([self._names, *rows])]
        return [
            "  ".join(_padded(row, self._widths)).rstrip()
            for row in (rows if begun else [self._names, *rows])
        ]

    def _boxed(self, rows: Sequence[Cells]) -> Iterable[str]:
        rows = [[_visible(cell) for cell in row] for row in rows]
        begun = bool(self._widths)
        self._widths = self._fitting([self._names, *rows])
        return [*([] if begun else self._head()), *(ln for row in rows for ln in self._lines(row))]

    def _head(self) -> list[str]:
        bold, normal = _BOLD if self._screen.bold else ("", "")
        names = [f"{bold}{line}{normal}" for line in self._lines(self._names, "┃")]
        return [self._border("┏━┳┓"), *names, self._border("┡━╇┩")]

    def _border(self, parts: str) -> str:
        left, dash, middle, right = list("+-++" if self._screen.ascii else parts)
        return left + middle.join(dash * (w + 2) for w in self._widths) + right

    def _lines(self, row: Cells, bar: str = "│") -> list[str]:
        """Returns the lines of a row: several, where a value is wider than its column."""
        bar = "|" if self._screen.ascii else bar
        cells = [_folded(cell, w) for cell, w in zip(row, self._widths, strict=True)]
        lines = []
        for i in range(max(map(len, cells), default=1)):
            parts = [c[i] if i < len(c) else "" for c in cells]
            lines.append(f"{bar} " + f" {bar} ".join(_padded(parts, self._widths)) + f" {bar}")
        return lines

    def _fitting(self, rows: Sequence[Cells]) -> list[int]:
        """Returns the widths for these rows besides those before; the widest shrink to the
        screen, yet no column becomes narrower than it was."""
        wanted = _wanted(rows)
        least = self._widths or [min(w, _LEAST_WIDTH) for w in wanted]
        widths = [max(w, n) for w, n in zip(wanted, least, strict=True)]
        assert self._screen.width is not None
        excess = sum(widths) + 3 * len(widths) + 1 - self._screen.width
        while excess > 0 and any(w > n for w, n in zip(widths, least, strict=True)):
            widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
            widths[widest] -= 1
            excess -= 1
        return widths


def _wanted(rows: Sequence[Cells]) -> list[int]:
    columns = zip(*rows, strict=True)
    return [max(_width(part) for cell in column for part in cell.split("\n")) for column in columns]


def _padded(cells: Cells, widths: Sequence[int]) -> list[str]:
    return [c + " " * (w - _width(c)) for c, w in zip(cells, widths, strict=True)]


def _visible(cell: str) -> str:
    """Returns a value with what would move the cursor or colour a terminal spelt out."""
    cell = cell.expandtabs(4)
    return cell if cell.isprintable() else visible(cell)


def _folded(cell: str, width: int) -> list[str]:
    """Returns a value in lines of at most `width`."""
    lines = []
    for line in cell.split("\n"):
        begin = used = 0
        for i, size in enumerate(map(_width, line) if _width(line) > width else ()):
            if used + size > width and i > begin:
                lines.append(line[begin:i])
                begin, used = i, 0
            used += size
        lines.append(line[begin:])
    return lines


def _width(text: str) -> int:
    """Returns the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
