"""The operations by name, and whole queries made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz import joins, rows, windows
from tests.fuzz.data import Table
from tests.fuzz.relation import Making, Relation

OPERATORS: dict[str, tuple[float, Callable[[Making, int], Relation]]] = {
    "project": (2, rows.project),
    "group": (2, rows.group),
    "grouping-sets": (0.7, rows.grouping_sets),
    "distinct": (0.7, rows.distinct),
    "top-n": (1, rows.top_n),
    "limit": (0.8, rows.limit),
    "set": (1.2, rows.set_operation),
    "values": (0.2, rows.values),
    "unnest": (0.7, rows.unnest),
    "window": (1.5, windows.window_group),
    "window-rows": (0.5, windows.window_rows),
    "legacy-window": (1, windows.legacy_window),
    "window-top-n": (0.7, windows.window_top_n),
    "over": (1.2, windows.over),
    "dedup": (0.7, windows.deduplicate),
    "join": (1.5, joins.join),
    "interval-join": (0.8, joins.interval_join),
    "window-join": (0.8, joins.window_join),
    "semi-join": (1, joins.semi_join),
    "scalar": (0.7, joins.scalar_subquery),
    "with": (0.5, joins.common),
}


@dataclass(frozen=True)
class Query:
    """A statement, and what it is made of. `exact`: the order and kinds of its changes are determined, too."""

    sql: str
    operator: str
    pairs: tuple[tuple[str, str], ...]
    exact: bool


def queries(seed: int, tables: Sequence[Table], numbers: Sequence[int], only: str | None = None) -> list[Query]:
    """The queries of these numbers; each depends on the seed, its number and `only` alone."""
    return [_query(Random(f"{seed}/{only}/{n}"), tables, only) for n in numbers]


def _query(rng: Random, tables: Sequence[Table], only: str | None) -> Query:
    make = Making(rng, tables, build)
    depth = rng.choice((0, 1, 1, 2, 2, 3))
    made = _built(make, depth, only) if only else build(make, depth)
    return Query(
        made.sql[1:-1] if made.sql.startswith("(") else f"SELECT * FROM {made.sql}",
        made.operator,
        tuple(make.pairs),
        made.exact,
    )


def build(make: Making, depth: int) -> Relation:
    names = list(OPERATORS)
    return _built(make, depth, make.rng.choices(names, [OPERATORS[n][0] for n in names])[0])


def _built(make: Making, depth: int, name: str) -> Relation:
    """The operation over inputs of that depth; remembers what lies on what."""
    below: list[str] = []
    outer = make.build

    def inner(making: Making, inner_depth: int) -> Relation:
        made = outer(making, inner_depth)
        below.append(made.operator)
        return made

    make.build = inner
    made = OPERATORS[name][1](make, depth)
    make.build = outer
    make.pairs += [(made.operator, x) for x in below]
    return replace(made)
