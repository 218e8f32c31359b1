"""The rule engine equals naive evaluation: for any rules, rows, switches, changes and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules.columns import Columns
from rules.condition import (
    TRANSFORMS,
    And,
    Condition,
    Constant,
    Not,
    Opaque,
    Or,
    Predicate,
    Test,
    Variable,
)
from rules.options import Options
from rules.ruleset import RuleSet
from tests.rules import naive

TYPES = {
    "s": pa.string(), "t": pa.string(), "i": pa.int64(), "n": pa.int32(), "f": pa.float64(),
    "d": pa.decimal128(6, 2), "b": pa.bool_(), "ts": pa.timestamp("ms"),
}  # fmt: skip
PIECES = [
    "", "a", "b", "A", "ab", "ba", "É", "é", "\n", "\r", "\0", "'", "%", "_", "\\", " ", "10.0.0.1", "::1", "::ffff:", "😀", "1"
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
NUMBERS = st.integers(-3, 3)
DECIMALS = st.integers(-300, 300).map(lambda n: Decimal(n) / 100)
FLOATS = st.sampled_from(
    [-1.5, -0.0, 0.0, 0.5, 1.0, 2.5, float("inf"), float("-inf"), float("nan")]
)
VALUES = {
    "s": TEXTS,
    "t": TEXTS,
    "i": NUMBERS,
    "n": NUMBERS,
    "f": FLOATS,
    "d": DECIMALS,
    "b": st.booleans(),
    "ts": NUMBERS,
}
# Bounds small enough that a few rows take the paths of thousands.
TINY = {
    "rules.block._SORT": 4, "rules.block_matcher._FEW": 0, "rules.block_matcher._DENSE_CANDIDATES": 2,
    "rules.block_matcher._DENSE_SIZE": 2, "rules.block_matcher._CHUNK": 4, "rules.cache._PROBE": 6,
    "rules.cache._BYPASS": 9, "rules.cache._WARM_UP": 4, "rules.cache._MEASURED": 3, "rules.cache._SAMPLED": 2,
    "rules.columns._SMALL": 2, "rules.evaluate._CHUNK": 8, "rules.compiled_rules._BLOCK_ROWS": 5,
    "rules.compiled_rules._MOST_CELLS": 24, "rules.compiled_rules._MOST_DEAD": 3,
    "rules.ruleset._MOST_DELTAS": 1, "rules.ruleset._MANY_DELTAS": 1,
    "rules.ruleset._TOO_MANY_DELTAS": 2,
    "rules.access_choice._SAMPLE": 3, "rules.access_choice._GAP": 2, "rules.access_choice._BETTER": 2.0,
    "rules.access_choice._WORTH": 2.0,
    "rules.matchers.literals._FEW": 1, "rules.matchers.literals._MANY_VALUES": 2,
}  # fmt: skip


@contextmanager
def bounds(tiny: bool) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in TINY.items() if tiny else ():
            stack.enter_context(patch(name, value))
        yield


def escaped_pattern(parts: list[str]) -> tuple[str, str]:
    return "".join("\\" + p if p in ("%", "_", "\\") else p for p in parts) + "%", "\\"


TEXT_VARIABLES = st.builds(
    Variable, st.sampled_from("st"), st.lists(st.sampled_from(TRANSFORMS), max_size=2).map(tuple)
)
LIKES = st.one_of(
    st.tuples(
        st.lists(st.sampled_from([*PIECES, "%", "%", "_"]), max_size=5).map("".join), st.none()
    ),
    st.lists(st.sampled_from(PIECES), max_size=3).map(escaped_pattern),
)
# Of one meaning in Java and Python on the texts of this test.
REGEXES = st.sampled_from(
    [
        "",
        "a",
        "^a",
        "b|A",
        "[ab]+1",
        "(?:a|b)*1",
        "a[^b]",
        r"\s",
        r"\d\.",
        r"\W\w",
        "(?i)ab",
        "(?i)É",
        r"\Aab",
        "(a)b\\1",
        "(?=b)b",
        "a{2}",
    ]
)
NETWORKS = st.sampled_from(
    ["10.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "::/0", "::1/128", "192.168.0.0/16", "10.0.0.7/24"]
)
TEXT_PREDICATES = st.one_of(
    st.builds(Predicate, TEXT_VARIABLES, st.just("LIKE"), LIKES),
    st.builds(Predicate, TEXT_VARIABLES, st.just("REGEXP"), REGEXES),
    st.builds(Predicate, TEXT_VARIABLES, st.just("CIDR_MATCH"), NETWORKS),
)


def comparisons(variable: Variable) -> st.SearchStrategy[Predicate]:
    values = VALUES[variable.field]
    lists = st.tuples(st.lists(values, max_size=3).map(tuple), st.booleans())
    pairs = st.tuples(st.none() | values, st.none() | values)
    return st.one_of(
        st.builds(
            Predicate, st.just(variable), st.sampled_from(sorted(naive.COMPARE)), st.none() | values
        ),
        st.builds(Predicate, st.just(variable), st.just("BETWEEN"), pairs),
        st.builds(Predicate, st.just(variable), st.just("IN"), lists),
        st.just(Predicate(variable, "IS NULL")),
    )


PREDICATES = st.one_of(
    TEXT_PREDICATES,
    TEXT_VARIABLES.flatmap(comparisons),
    st.sampled_from(sorted(TYPES)).map(Variable).flatmap(comparisons),
)
LEAVES = (
    PREDICATES
    | st.builds(Opaque, st.sampled_from(["s=t", "i=n"]))
    | st.builds(Constant, st.sampled_from([True, False, None]))
)


def branches(children: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(children, max_size=4).map(tuple)
    return st.one_of(
        several.map(And),
        several.map(Or),
        children.map(Not),
        st.builds(Test, children, st.sampled_from(["TRUE", "FALSE", "UNKNOWN"]), st.booleans()),
    )


CONDITIONS = st.recursive(LEAVES, branches, max_leaves=8)
RULES = st.dictionaries(st.sampled_from([f"r{i}" for i in range(9)]), CONDITIONS, max_size=6)
ROWS = st.lists(st.fixed_dictionaries({n: st.none() | v for n, v in VALUES.items()}), max_size=12)
OPTIONS = st.builds(
    Options,
    cache=st.booleans(),
    hyperscan=st.booleans(),
    joined_scan=st.booleans(),
    exact_scan=st.booleans(),
    access=st.booleans(),
    learned_access=st.booleans(),
    dense_fallback=st.booleans(),
    cache_entries=st.sampled_from([2, 100]),
    max_cached_value_bytes=st.sampled_from([3, 1024]),
)
REBUILDS = st.sampled_from([None, RuleSet.rebuilt, RuleSet.compacted])
STEPS = st.lists(
    st.tuples(RULES, st.lists(st.sampled_from([f"r{i}" for i in range(9)])), REBUILDS), max_size=4
)


def to_columns(rows: list[dict[str, object]]) -> Columns:
    return Columns({n: pa.array([r[n] for r in rows], t) for n, t in TYPES.items()})


def pairs(
    rules: RuleSet, rows: list[dict[str, object]], columns: Columns | None = None
) -> list[tuple[int, str]]:
    def opaque(key: str, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = [naive.opaque(key, rows[i]) for i in at.tolist()]
        return np.array([v is True for v in values], bool), np.array(
            [v is None for v in values], bool
        )

    found = rules.match(columns or to_columns(rows), len(rows), opaque)
    assert not found.errors
    return [
        (row, rules.ids[rule])
        for row, rule in zip(found.rows.tolist(), found.rules.tolist(), strict=True)
    ]


def expected(rules: dict[str, Condition], rows: list[dict[str, object]]) -> list[tuple[int, str]]:
    return [
        (i, n)
        for i, row in enumerate(rows)
        for n in sorted(rules)
        if naive.evaluate(rules[n], row) is True
    ]


@given(rules=RULES, steps=STEPS, rows=ROWS, more=ROWS, options=OPTIONS, tiny=st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_any_rules_any_rows_any_switches_any_changes(
    rules: dict[str, Condition],
    steps: list[tuple[dict[str, Condition], list[str], Callable[[RuleSet], RuleSet] | None]],
    rows: list[dict[str, object]],
    more: list[dict[str, object]],
    options: Options,
    tiny: bool,
) -> None:
    with bounds(tiny):
        current, known, earlier = RuleSet.empty(options).change(rules), dict(rules), None
        for add, remove, rebuild in [({}, [], None), *steps]:
            before, known_before = current, dict(known)
            current = current.change(add, remove)
            known = {n: c for n, c in known.items() if n not in remove} | add
            if rebuild is not None:  # of an older version, as if it had run beside
                current = current.rebased_onto(rebuild(earlier or current))
            earlier = before
            memo = to_columns(rows)
            assert dict(current.rules) == known
            assert pairs(current, rows, memo) == expected(known, rows)
            assert pairs(before, rows, memo) == expected(known_before, rows)
            assert pairs(current, more) == expected(known, more)


@given(rules=RULES, rows=ROWS, cut=st.integers(0, 12), options=OPTIONS)
@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_batches_may_be_cut_anywhere(
    rules: dict[str, Condition], rows: list[dict[str, object]], cut: int, options: Options
) -> None:
    """Slices of Arrow arrays begin in the middle of a byte of their bitmaps."""
    current, whole = RuleSet.empty(options).change(rules), to_columns(rows)
    first = Columns({n: a.slice(0, cut) for n, a in whole.arrays.items()})
    second = Columns({n: a.slice(cut) for n, a in whole.arrays.items()})
    found = pairs(current, rows[:cut], first)
    found += [(row + len(rows[:cut]), rule) for row, rule in pairs(current, rows[cut:], second)]
    assert found == expected(rules, rows)
