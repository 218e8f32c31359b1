"""A table that is drawn while its rows come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.control import strip_control_codes

Cells = Sequence[str]

_LEAST_WIDTH: Final = 8


class LiveTable:
    """Draws the head for its first rows, then rows at once, then the foot.

    A column is as wide as the longest value so far. Where there is a screen the table is kept as
    narrow as that, if it can be: longer values take several lines.
    """

    def __init__(self, console: Console, names: Cells) -> None:
        self._console = console
        self._names = names
        self._widths: list[int] = []

    def rows(self, rows: Sequence[Cells]) -> None:
        rows = [[strip_control_codes(cell.expandtabs(4)) for cell in row] for row in rows]
        begun = bool(self._widths)
        self._widths = self._fitting([self._names, *rows])
        if not begun:
            self._head()
        self._write([line for row in rows for line in self._lines(row)])

    def end(self) -> None:
        """Draws the foot."""
        if not self._widths:
            self.rows([])
        self._write([self._border("└", "─", "┴", "┘")])

    def _head(self) -> None:
        self._write([self._border("┏", "━", "┳", "┓")])
        for line in self._lines(self._names, "┃"):
            self._console.print(line, style="bold", markup=False, highlight=False, soft_wrap=True)
        self._write([self._border("┡", "━", "╇", "┩")])

    def _border(self, left: str, dash: str, middle: str, right: str) -> str:
        return left + middle.join(dash * (w + 2) for w in self._widths) + right

    def _lines(self, row: Cells, bar: str = "│") -> list[str]:
        """Returns the lines of a row: several, where a value is wider than its column."""
        cells = [_folded(cell, w) for cell, w in zip(row, self._widths, strict=True)]
        lines = []
        for i in range(max(map(len, cells), default=1)):
            parts = [c[i] if i < len(c) else "" for c in cells]
            padded = [p + " " * (w - cell_len(p)) for p, w in zip(parts, self._widths, strict=True)]
            lines.append(f"{bar} " + f" {bar} ".join(padded) + f" {bar}")
        return lines

    def _fitting(self, rows: Sequence[Cells]) -> list[int]:
        """Returns the widths for these rows besides those before; the widest shrink to the
        screen, yet no column becomes narrower than it was."""
        wanted = [
            max(cell_len(part) for cell in column for part in cell.split("\n"))
            for column in zip(*rows, strict=True)
        ]
        least = self._widths or [min(w, _LEAST_WIDTH) for w in wanted]
        widths = [max(w, n) for w, n in zip(wanted, least, strict=True)]
        if not self._console.is_terminal:
            return widths
        excess = sum(widths) + 3 * len(widths) + 1 - self._console.width
        while excess > 0 and any(w > n for w, n in zip(widths, least, strict=True)):
            widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
            widths[widest] -= 1
            excess -= 1
        return widths

    def _write(self, lines: Sequence[str]) -> None:
        file = self._console.file
        file.writelines(f"{line}\n" for line in lines)
        file.flush()


def _folded(cell: str, width: int) -> list[str]:
    return [part for line in cell.split("\n") for part in chop_cells(line, width) or [""]]
