"""Rows of CSV, one by one: neither one row nor the empty ones between others cost more than their
bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

# Each field costs memory, and a row may be as long as a request.
_MOST_COMMAS: Final = 1_000_000


class CsvRows:
    """Iterates over rows. `number`: that of the last one, the first is 1."""

    def __init__(self, text: str) -> None:
        self.number = 0
        self._text = io.StringIO(text, newline="")
        self._commas = 0

    def __iter__(self) -> Iterator[list[str]]:
        """Yields the fields of each row. csv.Error for what is none."""
        for row in csv.reader(self._lines(), strict=True):
            self.number += 1
            self._commas = 0
            yield row

    def _lines(self) -> Iterator[str]:
        for line in self._text:
            self._commas += line.count(",")
            if self._commas > _MOST_COMMAS:
                raise csv.Error(f"row {self.number + 1} has more than {_MOST_COMMAS:,} commas")
            yield line
