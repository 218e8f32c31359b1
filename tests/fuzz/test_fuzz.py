"""A fixed share of the random queries gives what real Flink gives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.fuzz.compare import Flink, compared
from tests.fuzz.data import tables
from tests.fuzz.grammar import queries

COUNT = 30


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1001, 2002])
def test_random_queries_give_what_flink_gives(flink: Any, seed: int) -> None:
    held = tables(Random(f"tables/{seed}"))
    made = queries(seed, held, range(COUNT))
    verdicts = compared(Flink(flink), held, made)
    unlike = [
        (v.kind, q.sql, v.ours, v.flink) for q, v in zip(made, verdicts, strict=True) if v.differs
    ]
    assert not unlike
    assert sum(isinstance(v.flink, list) and len(v.flink) > 1 for v in verdicts) >= COUNT / 2
