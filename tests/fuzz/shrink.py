"""Makes a statement that differs smaller, while it differs in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from parser import parse_query
from parser.errors import SqlError
from parser.writer.statements import write_tree
from tests.fuzz.compare import Flink, Verdict, compared
from tests.fuzz.data import Table
from tests.fuzz.grammar import Query

AT_ONCE = 24


def shrunk(
    flink: Flink, tables: Sequence[Table], query: Query, found: Verdict
) -> tuple[Sequence[Table], Query]:
    """Smaller tables and a shorter statement with a verdict of the same kind."""
    for _ in range(25):
        step = _shorter(flink, tables, query, found)
        if step is None:
            break
        query = step
    named = {t.name for t in tables if re.search(rf"\b{t.name}\b", query.sql)}
    named |= {t.of for t in tables if t.name in named}
    return _fewer_rows(flink, [t for t in tables if t.name in named], query, found), query


def _shorter(flink: Flink, tables: Sequence[Table], query: Query, found: Verdict) -> Query | None:
    """The first shorter text that differs in the same way; None if there is none."""
    texts = sorted({t for t in _smaller(query.sql) if len(t) < len(query.sql)}, key=len)
    for start in range(0, len(texts), AT_ONCE):
        part = [replace(query, sql=t) for t in texts[start : start + AT_ONCE]]
        for shorter, verdict in zip(part, compared(flink, tables, part), strict=True):
            if _alike(verdict, found):
                return shorter
    return None


def _alike(verdict: Verdict, found: Verdict) -> bool:
    """Of the same kind; where we refuse, with the same words."""
    if verdict.kind != found.kind:
        return False
    if isinstance(found.ours, str) and isinstance(verdict.ours, str):
        return _words(verdict.ours) == _words(found.ours)
    return not isinstance(found.flink, str) or str(verdict.flink)[:60] == found.flink[:60]


def _words(message: str) -> str:
    return " ".join(re.findall(r"[a-z]{3,}", message)[:6])


def _fewer_rows(
    flink: Flink, tables: Sequence[Table], query: Query, found: Verdict
) -> Sequence[Table]:
    kept = list(tables)
    for number in range(len(kept)):
        part = max(len(kept[number].rows) // 2, 1)
        while part:
            start = 0
            while start < len(rows := kept[number].rows):
                fewer = replace(kept[number], rows=rows[:start] + rows[start + part :])
                attempt = [*kept[:number], fewer, *kept[number + 1 :]]
                if _alike(compared(flink, attempt, [query])[0], found):
                    kept = attempt
                else:
                    start += part
            part //= 2
    return kept


def _smaller(sql: str) -> Iterator[str]:
    """Texts with one part left out, or with a part in the place of the whole."""
    tree = parse_query(sql)
    for number, node in enumerate(tree.walk()):
        for attempt in _attempts(node):
            copy = tree.copy()
            place = next(n for i, n in enumerate(copy.walk()) if i == number)
            changed = attempt(place, copy)
            try:
                text = write_tree(changed)
                parse_query(text)
            except (
                SqlError,
                AttributeError,
                KeyError,
                TypeError,
                ValueError,
                IndexError,
                AssertionError,
            ):
                continue
            yield text


def _attempts(node: exp.Expr) -> Iterator[Any]:
    for key, value in node.args.items():
        if isinstance(value, list):
            for index in range(len(value)):
                yield _without_item(key, index)
        elif value is not None and key not in ("this", "expression", "from", "from_", "kind"):
            yield _without(key)
        held = value if isinstance(value, list) else [value]
        for index, child in enumerate(held):
            if isinstance(child, exp.Expr) and not isinstance(node, exp.Identifier | exp.Column):
                yield _raised(key, index)


def _without(key: str) -> Any:
    def change(place: exp.Expr, whole: exp.Expr) -> exp.Expr:
        place.set(key, None)
        return whole

    return change


def _without_item(key: str, index: int) -> Any:
    def change(place: exp.Expr, whole: exp.Expr) -> exp.Expr:
        items = list(place.args[key])
        del items[index]
        place.set(key, items)
        return whole

    return change


def _raised(key: str, index: int) -> Any:
    """The child in the place of the node."""

    def change(place: exp.Expr, whole: exp.Expr) -> exp.Expr:
        held = place.args[key]
        child = held[index] if isinstance(held, list) else held
        if place is whole or place.parent is None:
            return child.copy()
        place.replace(child.copy())
        return whole

    return change
