"""Timers of a table: what is due is what a look at all rows finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parser.types import BIGINT, INT, Schema
from sqlengine.state.table import KeyedTable


@pytest.mark.parametrize("seed", range(4))
def test_due_rows_are_those_of_a_look_at_all(seed: int) -> None:
    chance = np.random.default_rng(seed)
    table = KeyedTable("t", Schema.of(k=INT), Schema.of(at=BIGINT.with_nullable(False)), ())
    now = 0
    for _ in range(400):
        now += int(chance.integers(0, 200))
        # Few keys and near times: rows move within a second, back and forth, and slots are reused.
        keys = chance.permutation(20)[: chance.integers(1, 6)]
        slots, _ = table.slots_for([pa.array(keys, pa.int32())], len(keys))
        table.columns["at"][slots] = now + chance.integers(-300, 2_500, len(keys))
        table.mark(slots)
        times, live = table.columns["at"].astype(np.int64), table.live()
        assert table.earliest("at") == times[live].min()
        due = table.due("at", now)
        assert sorted(due.tolist()) == live[times[live] <= now].tolist()
        if chance.random() < 0.5:
            table.remove(due)
        else:
            table.columns["at"][due] = times[due] + chance.integers(1, 1_500, len(due))
            table.mark(due)
