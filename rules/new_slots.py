"""The slots that one batch adds to a store: each variable gets the numbers of its own at once, the
lists of all are made in one go at the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rules.cache import SlotStore
from rules.matchers.base import HitList


class NewSlots:
    """Collects what makes up the slots of a batch, variable by variable."""

    def __init__(self, store: SlotStore) -> None:
        self._store, self._first = store, len(store)
        self._variables: list[int] = []
        self._counts: list[int] = []
        self._hits = HitList()

    @property
    def count(self) -> int:
        return self._hits.base

    def add(self, variable: int, count: int, match: Callable[[HitList], None]) -> tuple[int, int]:
        """Slots for `count` values, whose hits `match` finds: the number of the first, and of the
        hits."""
        hits, before = self._hits, self._hits.size
        first = self._first + hits.base
        match(hits)
        hits.base += count
        self._variables.append(variable)
        self._counts.append(count)
        return first, hits.size - before

    def finish(self) -> None:
        """Puts all of them into the store."""
        if self._counts:
            variables = np.array(self._variables, np.int32).repeat(self._counts)
            self._store.add(variables, self._hits.finish())
