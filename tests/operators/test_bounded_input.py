"""Operators that emit at the end of input: same output for any batch size and after a restart,
compared with Python."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import BIGINT
from planner.logical import Frame, Materialize, Over, OverCall, SortKey
from sqlengine.batch import MAX_WATERMARK
from sqlengine.operators.changelog.materialize import MaterializeOperator
from sqlengine.operators.over.at_end import OverAtEndOperator
from tests.operators.test_changelogs import INSERT, SOURCE, Row, rows, run

sizes, restarts = st.integers(1, 9), st.integers(0, 5)


def _first(row: Row) -> tuple[bool, int]:
    return row[1] is not None, row[1] or 0


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, max_size=30), sizes, restarts, st.integers(1, 4), st.integers(0, 9))
def test_sorted_and_cut(
    given_rows: Sequence[Row], most: int, restart: int, start: int, count: int
) -> None:
    node = Materialize(SOURCE, (SortKey("u"),), start, start + count)
    told = [(INSERT, row) for row in given_rows]
    found = run(lambda: MaterializeOperator(node), told, most, restart, MAX_WATERMARK)
    assert found == [
        (INSERT, row) for row in sorted(given_rows, key=_first)[start - 1 : start + count]
    ]


distances = st.integers(-30, 30)


def _frame(given: Sequence[Row], row: Row, preceding: int, following: int, scale: int) -> int:
    """How many rows are no farther from the row than so many parts of 1; those without a value see
    each other."""
    if row[1] is None:
        return sum(r[1] is None for r in given)
    far = [(r[1] - row[1]) * 10**scale for r in given if r[1] is not None]
    return sum(-preceding <= d <= following for d in far)


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, max_size=30), sizes, restarts, distances, distances, st.integers(0, 2))
def test_frames_by_distance(
    given_rows: Sequence[Row], most: int, restart: int, preceding: int, following: int, scale: int
) -> None:
    call = OverCall("n", "COUNT", (), BIGINT.with_nullable(False))
    node = Over(
        SOURCE, (), (SortKey("u"),), Frame(False, preceding, following, scale), (call,), at_end=True
    )
    told = [(INSERT, row) for row in given_rows]
    found = run(lambda: OverAtEndOperator(node), told, most, restart, MAX_WATERMARK, width=4)
    by = sorted(given_rows, key=_first)
    wanted: Sequence[object] = [
        (INSERT, (*r, _frame(given_rows, r, preceding, following, scale))) for r in by
    ]
    assert found == wanted
