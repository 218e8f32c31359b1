"""What waits for the end of input says the same whatever the size of batches and after a restart, which Python says too."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.logical import Materialize, SortKey
from sqlengine.batch import MAX_WATERMARK
from sqlengine.operators.materialize import MaterializeOperator
from tests.operators.test_changelogs import INSERT, SOURCE, Row, rows, run

sizes, restarts = st.integers(1, 9), st.integers(0, 5)


def _first(row: Row) -> tuple[bool, int]:
    return row[1] is not None, row[1] or 0


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, max_size=30), sizes, restarts, st.integers(1, 4), st.integers(0, 9))
def test_sorted_and_cut(given_rows: Sequence[Row], most: int, restart: int, start: int, count: int) -> None:
    node = Materialize(SOURCE, (SortKey("u"),), start, start + count)
    told = [(INSERT, row) for row in given_rows]
    found = run(lambda: MaterializeOperator(node), told, most, restart, MAX_WATERMARK)
    assert found == [(INSERT, row) for row in sorted(given_rows, key=_first)[start - 1 : start + count]]
