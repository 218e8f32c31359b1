"""Consecutive batches merged into one: no row and no watermark is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parser.types import BIGINT, Schema
from sqlengine.batch import Batch, empty, from_pydict, merge_runs

ROWS = Schema.of(v=BIGINT)


def rows(values: list[int], watermark: int, *, origin: str = "", idle: bool = False) -> Batch:
    batch = from_pydict(ROWS, {"v": list(values)})
    return replace(batch, watermark=watermark, origin=origin, idle=idle)


def test_rows_know_the_time_before_them() -> None:
    tick = empty(ROWS, watermark=7)
    (one,) = merge_runs([rows([1, 2], 5, origin="0"), tick, rows([3], 9, origin="1")])
    assert one.columns[0].to_pylist() == [1, 2, 3]
    assert one.watermarks().tolist() == [5, 5, 9]
    assert one.watermark == 9
    assert one.origin == ""
    assert one.watermarks_before(np.array([6, 8])).tolist() == [5, 7]


def test_silence_and_other_columns_keep_batches_apart() -> None:
    first, silent, again = rows([1], 5), rows([], 5, idle=True), rows([2], 6)
    other = from_pydict(Schema.of(w=BIGINT), {"w": [3]})
    assert merge_runs([first, silent, again, other]) == [first, silent, again, other]
    assert merge_runs([]) == []
