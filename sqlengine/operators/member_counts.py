"""Counters of rows, for the members of a family each for itself."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sqlengine.batch import IntArray

# The counters of rows dropped as late, and of alerts that are held back.
LATE_ROWS: Final = "late_rows"
HELD_BACK: Final = "held_back"


def count_rows(counters: Counter[str], name: str, rows: int, numbers: IntArray | None) -> None:
    """Counts rows under a name, and those of a member under the name with its number behind it;
    `numbers`: of the member of each row, None where there are no members."""
    counters[name] += rows
    if rows and numbers is not None:
        counters.update(Counter(f"{name}/{n}" for n in numbers.tolist()))
