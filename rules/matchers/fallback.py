"""LIKE patterns of wildcards only: there is no literal to search for, each is tried on each
value."""

from __future__ import annotations

from collections.abc import Sequence

from rules.counters import Counters
from rules.like import LikePattern
from rules.matchers.base import HitList, Values


class WildcardMatcher:
    """Leaves by number with patterns such as `_`, `__%`."""

    def __init__(self, leaves: Sequence[tuple[int, LikePattern]], counters: Counters) -> None:
        self._leaves = leaves
        self._counters = counters

    def match(self, values: Values, hits: HitList) -> None:
        self._counters.plain_checks += len(values) * len(self._leaves)
        for value, text in enumerate(values.texts):
            hits.add(value, [leaf for leaf, pattern in self._leaves if pattern.matches(text)])
