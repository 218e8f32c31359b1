"""Offsets in a text as lines and columns."""

from __future__ import annotations

import re
from bisect import bisect_right

from parser.errors import Position


class Places:
    """Finds line and column of offsets in `text`, which begins at `origin` of a larger script."""

    def __init__(self, text: str, origin: Position | None = None) -> None:
        self._size = len(text) + 1
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._line = origin.line if origin else 1
        self._column = origin.column if origin else 1
        self._from, self._to, self._found, self._shift = 0, 0, 0, 0  # the line of the last answer

    def at(self, offset: int, length: int = 1) -> Position:
        line, column = self.line_column(offset)
        return Position(line, column, length)

    def line_column(self, offset: int) -> tuple[int, int]:
        if not self._from <= offset < self._to:
            row = bisect_right(self._starts, offset) - 1
            self._from = self._starts[row]
            self._to = self._starts[row + 1] if row + 1 < len(self._starts) else self._size
            self._found = self._line + row
            self._shift = (self._column if row == 0 else 1) - self._from
        return self._found, offset + self._shift
