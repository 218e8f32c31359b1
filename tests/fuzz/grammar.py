"""The operations by name, and whole queries made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from random import Random

from tests.fuzz import joins, lookups, patterns, ranks, rows, windows
from tests.fuzz.data import Table
from tests.fuzz.forms import COMPARED
from tests.fuzz.ranks import total_order
from tests.fuzz.relation import STREAMING, Making, Relation, of_kind

OPERATORS: dict[str, tuple[float, Callable[[Making, int], Relation]]] = {
    "project": (1.5, rows.project),
    "group": (1.5, rows.group),
    "grouping-sets": (0.6, rows.grouping_sets),
    "distinct": (0.7, rows.distinct),
    "top-n": (1, ranks.top_n),
    "qualify": (0.6, ranks.qualify),
    "limit": (0.8, ranks.limit),
    "union-all": (0.6, rows.union_all),
    "set": (0.8, rows.set_operation),
    "values": (0.4, rows.values),
    "unnest": (0.7, rows.unnest),
    "changes": (0.7, rows.changes),
    "window": (1.2, windows.window_group),
    "window-rows": (0.5, windows.window_rows),
    "legacy-window": (0.8, windows.legacy_window),
    "window-top-n": (0.7, windows.window_top_n),
    "over": (1, windows.over),
    "dedup": (0.8, windows.deduplicate),
    "match": (1, patterns.match),
    "join": (1.2, joins.join),
    "interval-join": (0.8, joins.interval_join),
    "window-join": (0.8, joins.window_join),
    "semi-join": (0.8, joins.semi_join),
    "scalar": (0.7, joins.scalar_subquery),
    "lateral": (0.6, joins.lateral),
    "with": (0.5, joins.common),
    "temporal-join": (0.8, lookups.temporal_join),
    "look-up": (0.7, lookups.look_up),
    "by-clock": (0.8, lookups.by_clock),
}
# Beside these Flink plans no subquery that reads the query around it ("unexpected correlate
# variable"), or hardly one.
_CORRELATES = ("unnest", "temporal-join", "look-up")
_NEVER = {frozenset(("lateral", x)) for x in (*_CORRELATES, "values")}
PAIRS = tuple(p for p in combinations_with_replacement(OPERATORS, 2) if frozenset(p) not in _NEVER)
# What is rare by itself: twice in one query, what takes a time attribute and gives none, and what
# gives way to others; and with QUALIFY and LATERAL, which Flink often cannot plan beside others.
_MORE = (
    *((x, x) for x in OPERATORS),
    *((x, y) for y in ("qualify", "lateral") for x in OPERATORS if frozenset((x, y)) not in _NEVER),
    *(
        (x, "by-clock")
        for x in ("window-top-n", "interval-join", "temporal-join", "match", "dedup")
    ),
    *((x, "by-clock") for x in ("window-join", "look-up", "window-rows", "legacy-window")),
    *(
        (x, "values")
        for x in ("limit", "match", "changes", "window-join", "legacy-window", "grouping-sets")
    ),
    *(
        (x, "window-top-n")
        for x in ("top-n", "changes", "values", "limit", "dedup", "look-up", "qualify")
    ),
    *((x, "window-join") for x in ("match", "look-up", "window-join", "grouping-sets")),
    *(
        ("changes", "changes"),
        ("limit", "limit"),
        ("limit", "dedup"),
        ("match", "match"),
        ("top-n", "unnest"),
    ),
    ("grouping-sets", "grouping-sets"),
)
_TURNS = Random("turns").sample((*PAIRS, *_MORE), len(PAIRS) + len(_MORE))
TOGETHER = 40  # queries over the same tables
# Operations over two inputs of any kind: under them meets what cannot lie on one another.
_BOTH = ("join", "semi-join", "union-all", "set", "scalar")
ATTEMPTS = 12


@dataclass(frozen=True)
class Query:
    """A statement, and what it is made of. `exact`: the order and kinds of its changes are
    determined, too. `above`: what lies directly on what. `first_of`: see `known.first_rows`."""

    sql: str
    operator: str
    operators: tuple[str, ...]
    above: frozenset[tuple[str, str]]
    exact: bool
    null_key: bool
    planned: bool  # Flink can plan and answer it, for all that is known
    first_of: tuple[int, ...] | None = None

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """Two operations that both are in it, or one that is in it twice."""
        return {p for p in PAIRS if self.has(p)}

    def has(self, wanted: Sequence[str]) -> bool:
        return Counter(self.operators) >= Counter(wanted)


def queries(
    seed: int,
    tables: Sequence[Table],
    numbers: Sequence[int],
    only: str | None = None,
    batch: bool = False,
) -> list[Query]:
    """The queries of these numbers; each depends on the seed, its number, `only` and `batch`
    alone."""
    return [_query(seed, n, tables, only, batch) for n in numbers]


def _query(seed: int, number: int, tables: Sequence[Table], only: str | None, batch: bool) -> Query:
    """Every pair of operations has its turn, and a third one with it; the first attempt that has
    all of them counts."""
    turn: tuple[str, ...] = _TURNS[(seed * TOGETHER + number) % len(_TURNS)]
    wanted: tuple[str, ...] = (*turn, Random(f"{seed}/{number}").choice(list(OPERATORS)))
    if batch:
        turn, wanted = (tuple(n for n in names if n not in STREAMING) for names in (turn, wanted))
    found: list[Query] = []
    for attempt in range(1 if only else ATTEMPTS):
        found.append(
            _made(Random(f"{seed}/{only}/{number}/{attempt}"), tables, only, wanted, attempt, batch)
        )
        if found[-1].planned and found[-1].has(wanted):
            return found[-1]
    planned = [q for q in found if q.planned] or found
    return next((q for q in planned if q.has(turn)), planned[0])


def _made(
    rng: Random,
    tables: Sequence[Table],
    only: str | None,
    wanted: tuple[str, ...],
    attempt: int,
    batch: bool,
) -> Query:
    """The wanted operations on top of each other in some order, or some of them beside others."""
    goals = list(wanted) if attempt % 4 == 1 else rng.sample(wanted, len(wanted))
    root = only or (rng.choice(_BOTH) if attempt % 2 or not goals else goals.pop(0))
    make = Making(
        rng, tables, build, [] if only else goals, below=[[]], batch=batch, apart=attempt % 4 == 1
    )
    made = build(make, rng.choice((1, 1, 2, 2, 3)), root)
    operators = (*(below for _, below in make.pairs), *make.below[0])
    by_time = (
        None
        if made.updating or batch or not made.rowtime or make.chance(0.7)
        else in_time(make, made)
    )
    sql = made.sql[1:-1] if made.sql.startswith("(") else f"SELECT * FROM {made.sql}"
    return Query(
        by_time or sql,
        made.operator,
        operators,
        frozenset(make.pairs),
        (made.exact or by_time is not None) and not batch,
        make.null_key,
        not make.waits
        and not make.lost_pattern
        and not (make.correlated and not set(_CORRELATES).isdisjoint(operators)),
        made.first_of,
    )


def in_time(make: Making, made: Relation) -> str | None:
    """The rows in the order of their time."""
    rest = total_order(make, made, [])
    return f"SELECT * FROM {made.sql} ORDER BY {made.rowtime}, {', '.join(rest)}" if rest else None


def build(make: Making, depth: int, name: str | None = None) -> Relation:
    """The operation over inputs of that depth; remembers what lies on what."""
    names = [n for n in OPERATORS if not (make.batch and n in STREAMING)]
    chosen = name or make.rng.choices(names, [OPERATORS[n][0] for n in names])[0]
    make.below.append([])
    made = OPERATORS[chosen][1](make, depth)
    below = make.below.pop()
    if family(made.operator) == chosen:
        make.pairs += [(chosen, x) for x in below]
        below = [chosen]
    made = _idly_ordered(make, made)
    make.below[-1] += (
        below  # without an input that fits an operation gives way to a simpler one, or to its input
    )
    return made


def _idly_ordered(make: Making, made: Relation) -> Relation:
    """At times with an ORDER BY, which says nothing of a query that stands in another one."""
    columns = of_kind(made.columns, *COMPARED)
    if len(make.below) < 2 or not columns or not make.chance(0.05):
        return made
    return replace(made, sql=f"(SELECT * FROM {made.sql} ORDER BY {make.rng.choice(columns).name})")


_FAMILIES = {
    "group all": "group",
    "top-1": "top-n",
    "order limit": "limit",
    "union all": "union-all",
    "window top-n": "window-top-n",
    "window rows": "window-rows",
    "grouping sets": "grouping-sets",
    "legacy window": "legacy-window",
    "correlated scalar": "scalar",
    **dict.fromkeys(("union", "intersect", "except", "intersect all", "except all"), "set"),
    **dict.fromkeys(("dedup first", "dedup last"), "dedup"),
}


def family(operator: str) -> str:
    """The operation that made what calls itself so."""
    first, last = operator.split(" ")[0], operator.split(" ")[-1]
    if last == "join":
        return (
            f"{first}-join".replace("look-up-join", "look-up") if first in _TIMED_JOINS else "join"
        )
    if first in ("semi", "anti"):
        return "semi-join"
    return "by-clock" if last == "clock" else _FAMILIES.get(operator, operator)


_TIMED_JOINS = ("interval", "window", "temporal", "look-up")
