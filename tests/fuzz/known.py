"""Flink's plain bugs (tests/sql/differences.md), known by their form."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any


def first_rows(rows: Sequence[Any], key: Sequence[int]) -> list[Any]:
    """Changes that keep one row for each value of the columns `key`, with those told that Flink
    leaves out: it takes the first row of an order for one that never changes, and does not take
    back what another row replaces."""
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


_WAITING = re.compile(r"(?=.* NOT IN \(SELECT ).*( LATERAL \(|UNNEST\(|FOR SYSTEM_TIME)", re.DOTALL)
_SETS = re.compile(r"(?=.* EXISTS \().*(ROLLUP|CUBE|GROUPING SETS)", re.DOTALL)
_UNREAD = re.compile(
    r"(?=.*(SELECT DISTINCT|GROUP BY)).* JOIN (?!LATERAL|UNNEST).* ON TRUE", re.DOTALL
)
_SPREAD = re.compile(r".*\b(VAR|STDDEV)_", re.DOTALL)
_LISTED = re.compile(r"(?=.*LISTAGG\(DISTINCT ).*TABLE\((TUMBLE|HOP|CUMULATE)\(", re.DOTALL)
_LEGACY_JSON = re.compile(
    r"(?=.*JSON_(ARRAY|OBJECT)AGG\().*GROUP BY [^()]*(TUMBLE|HOP|SESSION)\(", re.DOTALL
)
_WINDOWED = re.compile(r".*GROUP BY (TUMBLE|HOP|SESSION)\(", re.DOTALL)
_RANKED = re.compile(
    r"(?=.*SELECT DISTINCT).*(ROW_NUMBER\(|RANK\(|LIMIT).*(ROW_NUMBER\(|RANK\(|LIMIT)", re.DOTALL
)
_NUMBER = re.compile(r"(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL)\b")


def reason(sql: str, ours: Sequence[Any], flink: Sequence[Any]) -> str:
    """Which bug of Flink's makes the answers differ, each a schema and the rows that are left in
    the end; "" for none."""
    fewer = not Counter(flink[1:]) - Counter(ours[1:])
    extra = Counter(flink[1:]) - Counter(ours[1:])
    more = not Counter(ours[1:]) - Counter(flink[1:])
    found = {
        "the end of time": any('"-1701532-' in str(row) for row in flink),
        "texts of FLOAT in Java 17": _rows(ours, _single) == _rows(flink, _single),
        "a variance below 0": _SPREAD.match(sql)
        and _rows(ours, _nothing) == _rows(flink, _nothing),
        "LISTAGG(DISTINCT) of a window": _LISTED.match(sql)
        and _rows(ours, _letters) == _rows(flink, _letters),
        "JSON in windows of GROUP BY": _LEGACY_JSON.match(sql)
        and _rows(ours, _bare) == _rows(flink, _bare),
        "NOT IN of an empty list": fewer and _WAITING.match(sql),
        "EXISTS over grouping sets": fewer and _SETS.match(sql),
        "DISTINCT over a join of which one side is not read": more and _UNREAD.match(sql),
        "a row of GROUP BY windows over nothing": more
        and extra.total() == 1
        and _WINDOWED.match(sql),
        "Top-N of what another Top-N takes back": more and _RANKED.match(sql),
    }
    return next((why for why, holds in found.items() if holds), "")


def _rows(answer: Sequence[Any], change: Callable[[str, Any], Any]) -> Counter[str]:
    """The rows with each value changed by the type of its column."""
    kinds = [kind for _, kind in json.loads(answer[0])]
    rows = map(json.loads, answer[1:])
    return Counter(
        json.dumps(
            [row[0], *(change(k, x) for k, x in zip(kinds, row[1:], strict=True))],
            ensure_ascii=False,
        )
        for row in rows
    )


def _single(kind: str, value: Any) -> Any:
    """A FLOAT by its bits: before Java 19 its text may have other digits than the shortest ones."""
    return (
        struct.pack("f", value).hex()
        if kind.startswith("FLOAT") and isinstance(value, float)
        else value
    )


def _nothing(kind: str, value: Any) -> Any:
    """NULL for 0: a variance that rounding has made negative, where values were taken back, is NULL
    in Flink."""
    return None if _NUMBER.match(kind) and value is not None and float(value) == 0 else value


def _letters(kind: str, value: Any) -> Any:
    """A text whatever its order: Flink puts the distinct values of a window together in the order
    of a hash table."""
    return "".join(sorted(value)) if kind.startswith("STRING") and isinstance(value, str) else value


def _bare(kind: str, value: Any) -> Any:
    """A text without quotes: Flink forgets them there."""
    return (
        value.replace('"', "")
        if kind.startswith(("CHAR", "VARCHAR", "STRING")) and isinstance(value, str)
        else value
    )


def unplanned(sql: str, answer: str) -> bool:
    """What Flink does not find valid by a mistake: in subqueries it does not find the variables of
    a pattern, which it takes for tables, nor the name of a column in an expression of ORDER BY; and
    for what the empty text makes it asks for a VARCHAR(0), which it does not have."""
    if re.search("Table '[ABC]' not found|string length must be between 1 and", answer):
        return True
    missing = re.search(r"Column '(\w+)' not found in any table", answer)
    return (
        missing is not None
        and re.search(rf" AS {missing[1]} .* ORDER BY [^()]*\([^()]*\b{missing[1]}\b", sql)
        is not None
    )
