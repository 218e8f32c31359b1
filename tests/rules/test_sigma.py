"""1,831 real rules over 32,257 real events raise the alerts that three independent evaluations
found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rules.columns import Columns
from rules.condition import Condition
from rules.options import Options
from rules.ruleset import Matches, RuleSet
from tests.rules import sigma

pytestmark = pytest.mark.skipif(
    not sigma.FOLDER.is_dir(), reason="../shared/corpora/sigma is not there"
)


def alerts(
    rules: RuleSet, found: Matches, events: list[dict[str, object]]
) -> set[tuple[str, object]]:
    assert not found.errors
    pairs = zip(found.rows.tolist(), found.rules.tolist(), strict=True)
    return {(rules.ids[rule], events[row]["_id"]) for row, rule in pairs}


def load(table: str) -> tuple[dict[str, Condition], list[dict[str, object]], Columns]:
    rules, events = sigma.read_rules(table), sigma.read_events(table)
    return rules, events, sigma.to_columns(events, sigma.fields_of(rules))


@pytest.mark.parametrize("table", sigma.TABLES)
def test_alerts_are_those_expected(table: str) -> None:
    rules, events, columns = load(table)
    ruleset = RuleSet.empty().change(rules)
    for _ in range(2):  # the second time from the cache
        found = ruleset.match(columns, len(events), sigma.opaque_of(events))
        assert alerts(ruleset, found, events) == sigma.read_expected(table)
    counters = ruleset.counters
    assert counters.cache_hits > 0.4 * counters.cache_misses > 0
    assert 0 < counters.candidates < 2 * len(rules) * len(events) / 5


WITHOUT = {
    "cache": Options(cache=False),
    "hyperscan": Options(hyperscan=False),
    "joined_scan": Options(joined_scan=False),
    "exact_scan": Options(exact_scan=False),
    "access": Options(access=False),
    "learned_access": Options(learned_access=False),
    "dense_fallback": Options(dense_fallback=False),
    "all": Options(
        cache=False, hyperscan=False, joined_scan=False, access=False, dense_fallback=False
    ),
}


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_alerts_are_the_same_without(switched_off: str) -> None:
    rules, events, columns = load("network_connection")
    ruleset = RuleSet.empty(WITHOUT[switched_off]).change(rules)
    found = ruleset.match(columns, len(events), sigma.opaque_of(events))
    assert alerts(ruleset, found, events) == sigma.read_expected("network_connection")


def test_rules_added_in_pieces_and_small_batches() -> None:
    """Deltas beside a base, rules replaced and removed, many batches."""
    rules, events, whole = load("file_event")
    names = list(rules)
    ruleset = RuleSet.empty().change({n: rules[n] for n in names[:120]})
    for start in range(120, len(names), 10):
        ruleset = ruleset.change(
            {n: rules[n] for n in names[start - 5 : start + 10]}, names[start - 60 : start - 50]
        )
    ruleset = ruleset.change({n: c for n, c in rules.items() if n not in ruleset.rules})
    assert ruleset.rules.keys() == rules.keys()
    assert ruleset.needs_rebuild
    assert not ruleset.rebuilt().needs_rebuild
    assert matched_in_batches(ruleset, whole, events, 300) == sigma.read_expected("file_event")


def matched_in_batches(
    ruleset: RuleSet, whole: Columns, events: list[dict[str, object]], size: int
) -> set[tuple[str, object]]:
    found: set[tuple[str, object]] = set()
    for start in range(0, len(events), size):
        part = events[start : start + size]
        arrays: Mapping[str, object] = {n: a.slice(start, size) for n, a in whole.arrays.items()}
        matches = ruleset.match(Columns(arrays), len(part), sigma.opaque_of(part))
        found |= alerts(ruleset, matches, part)
    return found
