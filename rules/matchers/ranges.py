"""Comparisons by sorted bounds: between two neighbouring bounds all values make the same leaves
TRUE.

With k bounds there are 2k + 1 places: 2i + 1 is bound i itself, 2i lies before it, 2k behind all of
them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np

from rules.leaves import Between, Comparable, Equal
from rules.matchers.base import HitList, Values
from rules.ragged import Index


class Places:
    """The bounds of leaves, and the leaves that are TRUE at a place."""

    def __init__(self, leaves: Iterable[tuple[int, Equal | Between]]) -> None:
        spans = [(number, span) for number, matching in leaves for span in _spans(matching)]
        known = {v for _, span in spans for v in (span.low, span.high) if v is not None}
        self.bounds: list[Any] = sorted(known)  # of one kind: texts, or numbers
        # An open end is place 0 or the last; an excluded bound begins behind itself (+2) or ends
        # before itself (+0).
        index = {bound: i for i, bound in enumerate(self.bounds)}
        last = 2 * len(self.bounds)
        low = [
            0 if s.low is None else 2 * index[s.low] + (1 if s.low_included else 2)
            for _, s in spans
        ]
        high = [
            last if s.high is None else 2 * index[s.high] + (1 if s.high_included else 0)
            for _, s in spans
        ]
        self._low, self._high = np.array(low, np.int64), np.array(high, np.int64)
        self._leaves = np.array([number for number, _ in spans], np.int64)

    def place(self, value: Comparable) -> int:
        """`value` must compare with the bounds and not be NaN."""
        at = bisect_left(self.bounds, value)
        return 2 * at + (at < len(self.bounds) and self.bounds[at] == value)

    def leaves_at(self, place: int) -> Index:
        return self._leaves[(self._low <= place) & (place <= self._high)]

    def __len__(self) -> int:
        return 2 * len(self.bounds) + 1


def _spans(matching: Equal | Between) -> list[Between]:
    if isinstance(matching, Between):
        return [matching]
    # An equality is a range of one place; IN is several of them under one leaf.
    return [Between(value, True, value, True) for value in matching.values]


class RangeMatcher:
    """Leaves by number that are ranges of texts, which compare by their code points as their UTF-8
    does."""

    def __init__(self, leaves: Iterable[tuple[int, Between]]) -> None:
        self._places = Places(leaves)

    def match(self, values: Values, hits: HitList) -> None:
        for value, text in enumerate(values.texts):
            hits.add(value, self._places.leaves_at(self._places.place(text)).tolist())
