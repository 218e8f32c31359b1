"""Flink's plain bugs (tests/sql/differences.md), known by their form."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any


def first_rows(rows: Sequence[Any], key: Sequence[int]) -> list[Any]:
    """Changes that keep one row for each value of the columns `key`, with those told that Flink leaves out: it takes
    the first row of an order for one that never changes, and does not take back what another row replaces."""
    held: dict[str, list[Any]] = {}
    found: list[Any] = []
    for row in map(json.loads, rows):
        place = json.dumps([row[1 + k] for k in key])
        if row[0] in ("+U", "+I") and place in held:
            found.append(json.dumps(["-U", *held[place]], ensure_ascii=False))
        if row[0] in ("+U", "+I"):
            held[place] = row[1:]
        else:
            held.pop(place, None)
        found.append(json.dumps(row, ensure_ascii=False))
    return found


def end_of_time(answer: Sequence[Any]) -> bool:
    """MATCH_ROWTIME of what the end of the input makes known is Flink's greatest number."""
    return any('"-1701532-' in str(row) for row in answer)


def pattern_lost(answer: str) -> bool:
    """In subqueries Flink does not find the variables of a pattern, which it takes for tables."""
    return re.search("Table '[ABC]' not found", answer) is not None
