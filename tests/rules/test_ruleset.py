"""Rule sets as values: changes, counters that prove the path, limits, and databases on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from parser.errors import ExecutionError, SqlError
from rules.columns import Columns
from rules.condition import And, Condition, Constant, Not, Opaque, Or, Predicate, Test, Variable
from rules.matchers.base import HitList
from rules.options import Options
from rules.predicate_index import TextIndex
from rules.ruleset import RuleSet

S, N = Variable("s"), Variable("n")
WORDS = [f"{a}{b}{c}" for a in "abcdef" for b in "ghijkl" for c in "mnopqr"]


def contains(word: str) -> Predicate:
    return Predicate(S, "LIKE", (f"%{word}%", None))


def columns(texts: Sequence[str | None]) -> Columns:
    return Columns({"s": pa.array(texts, pa.string())})


def matching(rules: RuleSet, texts: Sequence[str | None]) -> list[tuple[int, str]]:
    found = rules.match(columns(texts), len(texts))
    return [
        (row, rules.ids[rule])
        for row, rule in zip(found.rows.tolist(), found.rules.tolist(), strict=True)
    ]


def test_a_change_makes_another_set_and_compiles_what_is_new() -> None:
    many = RuleSet.empty().change({w: contains(w) for w in WORDS})
    changed = many.change({"agm": contains("ZZ"), "new": contains("agm")}, ["ahm"])
    assert many.counters.parts_compiled == 2
    assert matching(many, ["agm ahm ZZ"]) == [(0, "agm"), (0, "ahm")]
    assert matching(changed, ["agm ahm ZZ"]) == [(0, "agm"), (0, "new")]
    assert matching(changed.change({}, changed.ids), ["agm"]) == []
    assert many.counters.parts_compiled == 2  # taking away compiles nothing


def test_one_by_one_rules_are_compiled_a_few_times_each() -> None:
    rules = RuleSet.empty().change({w: contains(w) for w in WORDS[:100]})
    for word in WORDS[100:]:
        rules = rules.change({word: contains(word)})
    assert rules.needs_rebuild
    assert matching(rules, WORDS) == sorted((i, w) for i, w in enumerate(WORDS))
    assert rules.counters.parts_compiled < 1 + 2 * len(WORDS[100:])
    while not rules.needs_compaction:
        rules = rules.change({f"more {len(rules.rules)}": contains("ZZ")})
    compacted = rules.compacted()
    assert not compacted.needs_compaction
    assert matching(
        rules.change({"late": contains("gm")}, ["agm"]).rebased_onto(compacted), ["agm"]
    ) == [(0, "late")]
    rebuilt = rules.rebuilt()
    later = rules.change({"late": contains("gm")}, ["agm"])
    moved = later.rebased_onto(rebuilt)
    assert moved.rules == later.rules
    assert not moved.needs_rebuild
    assert matching(moved, ["agm"]) == matching(later, ["agm"]) == [(0, "late")]


def test_counters_prove_the_paths() -> None:
    texts = [f"{w} and more" for w in WORDS]
    rules: dict[str, Condition] = {w: contains(w) for w in WORDS}
    on, off = (
        RuleSet.empty().change(rules),
        RuleSet.empty(
            Options(cache=False, hyperscan=False, access=False, dense_fallback=False)
        ).change(rules),
    )
    for ruleset in (on, off):
        assert len(matching(ruleset, texts)) == len(matching(ruleset, texts)) == len(WORDS)
    a, b = on.counters, off.counters
    assert (a.cache_misses, a.cache_hits, a.cache_skipped) == (len(WORDS), len(WORDS), 0)
    assert (b.cache_misses, b.cache_hits, b.cache_skipped) == (0, 0, 2 * len(WORDS))
    assert a.joined_scans == a.hyperscan_scans == 1
    assert a.plain_checks == 0
    assert b.hyperscan_scans == b.compiled == 0
    assert b.plain_checks == 2 * len(WORDS) ** 2
    assert a.candidates == 2 * len(WORDS)
    assert (b.candidates, b.verifications) == (0, 2 * len(WORDS) ** 2)


@pytest.mark.parametrize("learned", [True, False])
def test_access_predicates_are_those_that_the_stream_makes_rare(learned: bool) -> None:
    """A long text that stands everywhere looks rarer than a short one, until it is seen."""
    everywhere = " ".join(str(1000 + i) for i in range(len(WORDS)))
    rules: dict[str, Condition] = {
        w: And((contains(w), contains(everywhere[i : i + 20]), Not(contains("zzz"))))
        for i, w in enumerate(WORDS)
    }
    ruleset = RuleSet.empty(Options(learned_access=learned)).change(rules)
    texts = [f"{WORDS[i % len(WORDS)]} {everywhere} {i}" for i in range(3_000)]
    for _ in range(2):
        before = ruleset.counters.candidates
        assert matching(ruleset, texts) == [(i, texts[i][:3]) for i in range(len(texts))]
    candidates = ruleset.counters.candidates - before
    # Each rule is a candidate where its own word stands, or everywhere.
    assert candidates == len(texts) * (1 if learned else len(WORDS))
    assert ruleset.counters.access_choices == int(learned)


def test_one_scan_for_many_values_or_one_for_each() -> None:
    """Where many literals are found in a value it is scanned alone, and again joined when few
    are."""
    words = {w: contains(w) for w in WORDS}
    rich, poor = (
        [" ".join(WORDS[i : i + 40]) for i in range(100)],
        [f"{i} nothing" for i in range(900)],
    )
    rules = RuleSet.empty(Options(cache=False)).change(words)
    scans = []
    for texts in (rich, rich, poor[:450], poor[450:]):
        before = rules.counters.joined_scans
        assert len(matching(rules, texts)) == (40 * 100 if texts is rich else 0)
        scans.append(rules.counters.joined_scans - before)
    assert scans == [1, 0, 0, 1]


def test_long_values_and_fields_that_never_repeat_are_not_cached() -> None:
    rules = RuleSet.empty(Options(max_cached_value_bytes=10)).change({"r": contains("x")})
    for _ in range(2):
        matching(rules, ["x" * 11, "é" * 6, "é" * 5, "x"])
    assert (rules.counters.cache_hits, rules.counters.cache_misses) == (2, 6)
    rules = RuleSet.empty().change({"r": contains("x")})
    for i in range(50):
        matching(rules, [f"{i} {j}" for j in range(1000)])
    assert rules.counters.cache_skipped > rules.counters.cache_misses
    assert (rules.counters.cache_hits, rules.counters.cache_rests) == (0, 1)


@pytest.mark.parametrize(("size", "batches"), [(200, 20), (20, 600)])
@pytest.mark.parametrize(("matching_s", "rests"), [(0.001, 0), (0.0001, 1)])
def test_a_cache_is_on_where_it_saves_more_than_it_costs(
    matching_s: float, rests: int, size: int, batches: int
) -> None:
    """Half of the values were there before. A look at the clock takes 0.1 ms: a batch costs the
    cache two of them."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.0001
        return now

    rules = RuleSet.empty(Options(clock=clock)).change({"r": contains("x")})
    (index,) = rules._segments[0].compiled._indexes
    assert isinstance(index, TextIndex)
    plain = index._match

    def slow(texts: list[str], hits: HitList) -> None:
        nonlocal now
        now += matching_s
        plain(texts, hits)

    with patch.object(index, "_match", slow):
        for i in range(batches):
            matching(rules, [f"{i + k} {j}" for k in range(2) for j in range(size)])
    counters = rules.counters
    assert counters.cache_rests == rests
    assert (counters.cache_saved_us > 1.5 * counters.cache_spent_us) == (rests == 0)
    assert (counters.cache_skipped > 0) == (rests > 0)


def test_the_cache_is_bounded() -> None:
    rules = RuleSet.empty(Options(cache_entries=100)).change({"r": contains("7")})
    for i in range(300):
        texts = [f"{i // 2}-{j}" for j in range(30)]
        assert [row for row, _ in matching(rules, texts)] == [
            j for j, t in enumerate(texts) if "7" in t
        ]
    assert rules.counters.cache_evictions > 3000
    assert rules.counters.cache_hits == 150 * 30


@pytest.mark.parametrize("kind", [And, Or])
def test_wide_and_deep_conditions(kind: type[And | Or]) -> None:
    wide = kind(
        tuple(contains(w) for w in WORDS) + tuple(Predicate(S, "<>", str(i)) for i in range(1100))
    )
    deep: Condition = contains(WORDS[0])
    for word in WORDS[1:] * 6:
        deep = kind((deep, contains(word)))
    mixed: Condition = contains(WORDS[0])
    for i in range(600):
        mixed = Test(
            Not(And((mixed, Predicate(S, "<>", "")))) if i % 2 else Or((mixed, Constant(None))),
            "TRUE",
            i % 3 == 0,
        )
    rules = RuleSet.empty().change({"wide": wide, "deep": deep, "mixed": mixed})
    found = {name for _, name in matching(rules, [" ".join(WORDS), "x", ""]) if name != "mixed"}
    assert found == {"wide", "deep"}


def test_opaque_expressions_are_asked_for_candidates_only() -> None:
    asked: list[tuple[str, list[int]]] = []

    def evaluate(key: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append((key, rows.tolist()))
        return rows % 2 == 0, rows == 3

    rules = RuleSet.empty().change(
        {
            "and": And((contains("a"), Opaque("even"))),
            "or null": And((contains("a"), Test(Opaque("even"), "UNKNOWN"))),
        }
    )
    found = rules.match(columns(["a", "b", "a", "a", "b", "a"]), 6, evaluate)
    assert [(r, rules.ids[k]) for r, k in zip(found.rows, found.rules, strict=True)] == [
        (0, "and"),
        (2, "and"),
        (3, "or null"),
    ]
    assert asked == [("even", [0, 2, 3, 5])]
    with pytest.raises(ExecutionError, match="nobody evaluates the expression 'even'"):
        rules.match(columns(["a"]), 1)


def test_databases_are_kept_on_disk(tmp_path: Path) -> None:
    rules = {w: contains(w) for w in WORDS}
    options = Options(folder=tmp_path / "patterns")
    first = RuleSet.empty(options).change(rules)
    assert (first.counters.compiled, first.counters.loaded) == (2, 0)
    second = RuleSet.empty(options).change(rules)
    assert (second.counters.compiled, second.counters.loaded) == (0, 2)
    files = sorted((tmp_path / "patterns").iterdir())
    assert len(files) == 2
    for damage in (b"", files[0].read_bytes()[:-9], b"x" * 5000, files[0].read_bytes()[:-1] + b"!"):
        files[0].write_bytes(damage)
        third = RuleSet.empty(options).change(rules)
        assert (third.counters.compiled, third.counters.loaded, third.counters.unreadable) == (
            1,
            1,
            1,
        )
        assert (
            matching(third, WORDS)
            == matching(first, WORDS)
            == [(i, w) for i, w in enumerate(WORDS)]
        )
    assert sorted((tmp_path / "patterns").iterdir()) == files


def test_databases_do_not_depend_on_the_order_of_rules(tmp_path: Path) -> None:
    options = Options(folder=tmp_path)
    rules = {f"{w} {i}": p for w in WORDS for i, p in enumerate(mixed(w))}
    first = RuleSet.empty(options).change(rules)
    some = dict(reversed(list(rules.items())))
    second = RuleSet.empty(options).change(some)
    assert second.counters.compiled == 0
    assert second.counters.loaded == first.counters.compiled > 2
    texts = [f"x{w}" for w in WORDS]
    assert matching(second, texts) == matching(first, texts)


def mixed(word: str) -> list[Condition]:
    """Of each kind that is searched for by databases."""
    return [
        contains(word),
        Predicate(S, "LIKE", (f"%{word}", None)),
        Predicate(S, "LIKE", (f"{word}%", None)),
        Predicate(S, "LIKE", (f"%{word}_a%", None)),
        Predicate(S, "REGEXP", f"{word}$"),
    ]


def test_a_folder_that_cannot_be_used_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    rules = RuleSet.empty(Options(folder=tmp_path / "file")).change({w: contains(w) for w in WORDS})
    assert matching(rules, [WORDS[0]]) == [(0, WORDS[0])]


def test_bytes_that_are_no_utf8_are_values_like_others() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ab\xffcd", b"x"]).buffers())
    rules = RuleSet.empty(Options()).change(
        {w: contains(w) for w in ("cd", "b", *WORDS)}
        | {"regex": Predicate(S, "REGEXP", "b.c"), "x": Predicate(S, "=", "x")}
    )
    found = rules.match(Columns({"s": broken}), 2)
    assert {rules.ids[r] for r in found.rules} == {"cd", "b", "regex", "x"}


@pytest.mark.parametrize(
    ("array", "predicate", "message"),
    [
        (pa.array([1]), contains("x"), "a rule compares the column 's' with texts"),
        (pa.array(["1"]), Predicate(S, "=", 1), "a rule compares the column 's' with numbers"),
        (
            pa.array(["1"]),
            Predicate(N, "=", 1),
            "a rule reads the column 'n', which the batch does not have",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named(
    array: pa.Array, predicate: Predicate, message: str
) -> None:
    with pytest.raises(ExecutionError) as error:
        RuleSet.empty().change({"r": predicate}).match(Columns({"s": array}), 1)
    assert error.value.message == message


def test_a_variable_is_of_one_kind() -> None:
    with pytest.raises(SqlError, match="'s' is compared with texts and with numbers"):
        RuleSet.empty().change({"r": Or((Predicate(S, "=", "x"), Predicate(S, "=", 1)))})


def test_no_rules_and_no_rows() -> None:
    assert matching(RuleSet.empty(), ["a"]) == []
    assert matching(
        RuleSet.empty().change({"all": Constant(True), "none": Constant(None)}), ["a", None]
    ) == [
        (0, "all"),
        (1, "all"),
    ]
    assert matching(RuleSet.empty().change({"all": Constant(True)}), []) == []
    assert matching(RuleSet.empty().change({"r": Predicate(S, "IS NULL")}), ["a", None]) == [
        (1, "r")
    ]
