"""MATCH_RECOGNIZE against a naive matcher: regular expressions over the rows of a key, written as
text.

The same rows are emitted for any batch size, and when the state is dumped and loaded after each
batch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser import parse
from parser.types import INT, STRING, Schema, timestamp
from planner import bind
from planner.catalog import Catalog, Table
from planner.logical import AssignWatermark, LogicalPlan, MatchRecognize, Project, Scan
from sqlengine.batch import Batch, from_pydict
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.expressions import evaluate
from sqlengine.operators.base import Operator
from sqlengine.operators.match.operator import MatchOperator
from sqlengine.operators.project import ProjectOperator
from sqlengine.operators.watermark import WatermarkOperator
from tests.operators.windows import Chain, end_of_input, rows
from tests.planning import analyzed

SCHEMA = Schema.of(ts=timestamp(3), k=STRING, v=INT)
DELAY = 2_000
DDL = """CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 't', 'format' = 'json')"""
Row = tuple[int, str | None, int]
LETTERS = "ABCD"


def operators(sql: str) -> list[Operator]:
    catalog = Catalog()
    (table,), (query,) = parse(DDL), parse(sql)
    made = bind(table, catalog, {})
    assert isinstance(made, Table)
    found: list[Operator] = []
    plan: LogicalPlan = analyzed(query, catalog.put(made)).input
    while not isinstance(plan, Scan):
        found.append(_operator(plan))
        (plan,) = plan.inputs
    return found[::-1]


def _operator(plan: LogicalPlan) -> Operator:
    match plan:
        case Project():
            return ProjectOperator(plan, plan.schema.names)
        case MatchRecognize():
            return MatchOperator(plan)
        case AssignWatermark():
            return WatermarkOperator(plan, evaluate)
    raise AssertionError(plan)


def run(
    sql: str, feed: Sequence[Row], size: int, restart: bool
) -> tuple[list[tuple[object, ...]], int]:
    """Returns the output, and the number of rows left in the state."""
    chain, found = Chain(operators(sql)), list[Batch]()
    batches = [batch(feed[i : i + size]) for i in range(0, len(feed), size)]
    for part in [*batches, end_of_input(SCHEMA)]:
        found += chain.push(part)
        if restart:
            held = {name: table.dump() for name, table in chain.context.tables.items()}
            chain = Chain(operators(sql), TaskContext(held))
    assert not chain.letters
    (waiting,) = (t for name, t in chain.context.tables.items() if name.endswith("/waiting"))
    return rows(b for b in found if b.num_rows), len(waiting)


def batch(feed: Sequence[Row]) -> Batch:
    return from_pydict(SCHEMA, {n: [r[i] for r in feed] for i, n in enumerate(SCHEMA.names)})


def feed(seed: int, count: int = 70) -> list[Row]:
    """Values 0 to 4: those of the letters, and one of none. Some rows come before their time is
    over, some too late."""
    rng, time, found = random.Random(seed), 100_000, list[Row]()
    for _ in range(count):
        time += rng.choice([0, 100, 300, 700, 1_500])
        back = rng.choice([0, 0, 0, 0, 500, 1_500, 5_000])
        found.append((time - back, rng.choice([None, "a", "b"]), rng.choice([0, 0, 1, 1, 2, 3, 4])))
    return found


# ---- the naive matcher ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    letter: str
    quantifier: str = ""
    absent: bool = False

    def __str__(self) -> str:
        return f"[^{self.letter}]" if self.absent else self.letter + self.quantifier


@dataclass(frozen=True)
class Pattern:
    items: tuple[Item, ...]
    skip: str
    within_ms: int

    def sql(self) -> str:
        within = f"WITHIN INTERVAL '{self.within_ms // 1000}' SECOND" if self.within_ms else ""
        letters = [i.letter for i in self.items]
        define = ", ".join(f"{x} AS {x}.v = {LETTERS.index(x)}" for x in letters)
        measures = ", ".join(
            f"COUNT({i.letter}.v) AS {i.letter.lower()}" for i in self.items if not i.absent
        )
        return (
            "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, v MEASURES FIRST(ts) AS"
            f" f, {measures} AFTER MATCH SKIP {self.skip} PATTERN"
            f" ({' '.join(map(str, self.items))}) {within} DEFINE {define})"
        )

    @property
    def ends_absent(self) -> bool:
        return self.items[-1].absent

    def regex(self) -> str:
        """Rows as letters. What waits takes all that is neither the absent letter nor what comes
        behind."""
        parts = []
        for i, item in enumerate(self.items):
            if not item.absent:
                parts.append(
                    f"(?P<{item.letter}>(?:{item.letter}){item.quantifier.rstrip('?') if len(item.quantifier) > 1 else item.quantifier})"
                )
            elif i < len(self.items) - 1:
                parts.append(f"[^{item.letter}{self.items[i + 1].letter}]*")
        return "".join(parts)

    def matches(self, taken: Sequence[tuple[int, str]]) -> list[tuple[int, ...]]:
        """Of the rows of one key (time, letter), the first row and the counts of each match."""
        found, start = [], 0
        text = "".join(letter for _, letter in taken)
        while start < len(taken):
            ends = (self._at(taken, text, start, end) for end in range(start + 1, len(taken) + 1))
            match = next((m for m in ends if m is not None), None)
            if match is not None:
                found.append(
                    (taken[start][0], *(len(match[i.letter]) for i in self.items if not i.absent))
                )
            start = self._next(match, start)
        return found

    def _at(
        self, taken: Sequence[tuple[int, str]], text: str, start: int, end: int
    ) -> re.Match[str] | None:
        over = taken[start][0] + self.within_ms
        if self.within_ms and taken[end - 1][0] >= over:
            return None
        match = re.compile(self.regex()).fullmatch(text, start, end)
        if match is None or not self.ends_absent:
            return match
        later = [letter for time, letter in taken[end:] if time < over]
        return None if self.items[-1].letter in later else match

    def _next(self, match: re.Match[str] | None, start: int) -> int:
        if match is None or self.skip == "TO NEXT ROW":
            return start + 1
        if self.skip == "PAST LAST ROW":
            return match.end()
        letter = self.skip.rsplit(" ", 1)[1]
        return match.start(letter) if "FIRST" in self.skip else match.end(letter) - 1


def naive(pattern: Pattern, given_rows: Sequence[Row]) -> list[tuple[object, ...]]:
    reached, keys = -(2**63), dict[str | None, list[tuple[int, int]]]()
    for time, key, value in given_rows:
        if time > reached:
            keys.setdefault(key, []).append((time, value))
        reached = max(reached, time - DELAY)
    found: list[tuple[object, ...]] = []
    for key, held in keys.items():
        taken = [(time, (LETTERS + "-")[value]) for time, value in sorted(held)]
        found += [(key, *m) for m in pattern.matches(taken)]
    return found


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    letters = draw(st.permutations(LETTERS))[: draw(st.integers(1, 4))]
    items: list[Item] = []
    for i, letter in enumerate(letters):
        last = i == len(letters) - 1
        waits = bool(items) and items[-1].absent
        held = bool(items) and items[-1].quantifier in ("", "{2}", "+?")
        absent = held and not waits and draw(st.integers(0, 4)) == 0
        reluctant = ["", "", "+?", "*?", "{2}", "{1,3}?", "{2,}?", "{0,2}?", "?"]
        greedy = bool(items) and items[-1].quantifier in ("+", "{1,2}")
        choices = (
            ["", "{2}"]
            if greedy or i == 0 or waits
            else reluctant
            if last
            else [*reluctant, "+", "{1,2}"]
        )
        items.append(Item(letter, "" if absent else draw(st.sampled_from(choices)), absent))
    fixed = [i.letter for i in items[1:] if not i.absent and i.quantifier in ("", "{2}", "+", "+?")]
    to = [f"TO {side} {letter}" for letter in fixed for side in ("FIRST", "LAST")]
    skip = draw(st.sampled_from(["TO NEXT ROW", "PAST LAST ROW", *to]))
    within = draw(st.sampled_from([2_000, 6_000] if items[-1].absent else [0, 0, 3_000]))
    return Pattern(tuple(items), skip, within)


@settings(max_examples=40)
@given(
    pattern=patterns(),
    seed=st.integers(0, 10_000),
    size=st.sampled_from([1, 4, 33, 1_000]),
    restart=st.booleans(),
)
def test_naive_matcher(pattern: Pattern, seed: int, size: int, restart: bool) -> None:
    given_rows = feed(seed)
    found, waiting = run(pattern.sql(), given_rows, size, restart)
    assert waiting == 0
    assert sorted(found, key=repr) == sorted(naive(pattern, given_rows), key=repr)


# What looks back at rows that the match has: it has to be there after a restart.
LOOKING_BACK = (
    (
        "PATTERN (A+ B) DEFINE A AS A.v >= LAST(A.v, 1) OR LAST(A.v, 1) IS NULL, B AS B.v <"
        " AVG(A.v) AND B.ts > FIRST(A.ts)"
    ),
    (
        "PATTERN (A B*? C) WITHIN INTERVAL '5' SECOND DEFINE C AS C.v * 2 > SUM(B.v) + A.v AND"
        " COUNT(*) > 2"
    ),
    (
        "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B{2,}? C) DEFINE B AS MAX(B.v) - MIN(v) < 3, C"
        " AS C.v = FIRST(B.v, 1)"
    ),
    (
        "AFTER MATCH SKIP TO LAST B PATTERN (A B+? [^C]) WITHIN INTERVAL '4' SECOND DEFINE B AS B.v"
        " >= A.v, C AS C.v > A.v"
    ),
)


@pytest.mark.parametrize("rest", LOOKING_BACK)
def test_any_batches_and_restarts(rest: str) -> None:
    measures = (
        "FIRST(ts) AS f, LAST(v, 1) AS l, SUM(v) AS s, LISTAGG(CAST(v AS STRING)) AS x,"
        " MATCH_ROWTIME() AS m"
    )
    sql = (
        f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, v MEASURES {measures}"
        f" {rest})"
    )
    given_rows = feed(7, 110)
    expected, _ = run(sql, given_rows, 1, False)
    assert len(expected) > 3
    for size in (5, 1_000):
        for restart in (False, True):
            assert run(sql, given_rows, size, restart)[0] == expected
