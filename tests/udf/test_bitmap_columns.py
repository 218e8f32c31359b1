"""Bitmaps by columns are what sets are, row by row."""

from __future__ import annotations

from operator import and_, or_, sub, xor

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from parser.types import BITMAP, INT, array
from udf.numbers.bitmaps import read_bitmap
from udf.registry import KernelContext, bind, call
from udf.vector import Vector

NUMBERS = st.none() | st.lists(
    st.none() | st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 3), max_size=5
)
COMBINED = {"BITMAP_AND": and_, "BITMAP_OR": or_, "BITMAP_XOR": xor, "BITMAP_ANDNOT": sub}


def _evaluated(name: str, *columns: pa.Array, kind: object = BITMAP) -> pa.Array:
    bound = bind(name, [kind] * len(columns))  # type: ignore[list-item]
    context = KernelContext(len(columns[0]), bound.result_type, bound.arg_types)
    return call(bound.definition, [Vector(c) for c in columns], context).array(len(columns[0]))


def _set(numbers: list[int | None] | None) -> frozenset[int] | None:
    return None if numbers is None else frozenset(n % 2**32 for n in numbers if n is not None)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_bitmaps_are_sets(
    rows: list[tuple[list[int | None] | None, list[int | None] | None]],
) -> None:
    columns = [pa.array([r[i] for r in rows], array(INT).arrow) for i in (0, 1)]
    bitmaps = [_evaluated("BITMAP_BUILD", c, kind=array(INT)) for c in columns]
    sets = [[_set(r[i]) for r in rows] for i in (0, 1)]
    assert [None if t is None else read_bitmap(t) for t in bitmaps[0].to_pylist()] == sets[0]
    sizes = _evaluated("BITMAP_CARDINALITY", bitmaps[0]).to_pylist()
    assert sizes == [None if s is None else len(s) for s in sets[0]]
    held = _evaluated("BITMAP_TO_ARRAY", bitmaps[0]).to_pylist()
    assert held == [
        None if s is None else [(n + 2**31) % 2**32 - 2**31 for n in sorted(s)] for s in sets[0]
    ]
    for name, combine in COMBINED.items():
        found = _evaluated(name, *bitmaps).to_pylist()
        wanted = [
            None if a is None or b is None else combine(a, b) for a, b in zip(*sets, strict=True)
        ]
        assert [None if t is None else read_bitmap(t) for t in found] == wanted, name
