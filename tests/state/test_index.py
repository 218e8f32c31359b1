"""The hash index against a dict, with full, partial and rare collisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine.state.index import FEW, HashIndex
from tests.state.few import few_rows


class Keys:
    """Whole numbers as keys in slots, as a table keeps them; slots are used again."""

    def __init__(self, spread: int) -> None:
        self.index = HashIndex()
        self.keys = np.zeros(0, np.int64)
        self.free: list[int] = []
        self.spread = spread

    def hashes(self, keys: np.ndarray) -> np.ndarray:
        return (keys % self.spread).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)

    def find(self, keys: list[int], insert: bool) -> tuple[list[int], list[bool]]:
        rows = np.array(keys, np.int64)

        def create(new: np.ndarray) -> np.ndarray:
            slots = [self.free.pop() if self.free else self._fresh() for _ in new]
            self.keys[slots] = rows[new]
            return np.array(slots, np.int64)

        slots, is_new = self.index.find(
            self.hashes(rows), lambda r, s: rows[r] == self.keys[s], create if insert else None
        )
        return slots.tolist(), is_new.tolist()

    def _fresh(self) -> int:
        self.keys = np.append(self.keys, 0)
        return len(self.keys) - 1

    def remove(self, slots: list[int]) -> None:
        self.index.remove(self.hashes(self.keys[slots]), np.array(slots, np.int64))
        self.free += slots


KEYS = st.lists(st.integers(0, 200), max_size=60)
STEPS = st.lists(st.tuples(st.sampled_from(["insert", "find", "remove"]), KEYS), max_size=25)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 3, 64, 1000]), st.sampled_from([0, 7, FEW]), STEPS)
def test_index_is_a_dict(spread: int, few: int, steps: list[tuple[str, list[int]]]) -> None:
    with few_rows(few):
        check_index(Keys(spread), steps)


def check_index(keys: Keys, steps: list[tuple[str, list[int]]]) -> None:
    """Compares an index with a dict, whichever way it looks for few keys."""
    model = dict[int, int]()
    for what, batch in steps:
        if what == "remove":
            gone = [k for k in dict.fromkeys(batch) if k in model]
            keys.remove([model.pop(k) for k in gone])
            continue
        slots, is_new = keys.find(batch, what == "insert")
        if what == "find":
            assert slots == [model.get(k, -1) for k in batch]
            continue
        first = [k not in model and k not in batch[:i] for i, k in enumerate(batch)]
        assert is_new == first
        model.update({k: s for k, s, new in zip(batch, slots, is_new, strict=True) if new})
        assert slots == [model[k] for k in batch]
        assert len(set(model.values())) == len(model) == len(keys.index)


@pytest.mark.parametrize("spread", [1, 2**31])
def test_growth_keeps_all_keys(spread: int) -> None:
    keys = Keys(spread)
    for start in range(0, 600, 50):
        keys.find(list(range(start, start + 50)), insert=True)
    slots, _ = keys.find(list(range(700)), insert=False)
    assert keys.keys[slots[:600]].tolist() == list(range(600))
    assert slots[600:] == [-1] * 100
