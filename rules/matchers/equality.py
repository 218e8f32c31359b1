"""Equality and membership: one look into a hash table for each value."""

from __future__ import annotations

from collections.abc import Iterable

from rules.leaves import Equal
from rules.matchers.base import HitList, Values


class EqualityMatcher:
    """Leaves by number that are Equal to texts."""

    def __init__(self, leaves: Iterable[tuple[int, Equal]]) -> None:
        self._leaves_of: dict[object, list[int]] = {}
        for number, equal in leaves:
            for value in equal.values:
                self._leaves_of.setdefault(value, []).append(number)

    def match(self, values: Values, hits: HitList) -> None:
        for value, leaves in enumerate(map(self._leaves_of.get, values.texts)):
            if leaves is not None:
                hits.add(value, leaves)
