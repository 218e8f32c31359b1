"""A kernel that raises costs the rows that make it raise, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from udf.guard import guarded
from udf.vector import Errors, Vector

NULL = pa.scalar(None, pa.int64())


def _kernel(args: Sequence[Vector], rows: int) -> Vector:
    """Adds one; raises as a whole for a 13, gives an error for a 7."""
    values = args[0].array(rows)
    if 13 in values.to_pylist():
        raise TypeError("thirteen")
    sevens = np.array([v == 7 for v in values.to_pylist()], np.bool_)
    return Vector(
        pa.array([v + 1 for v in values.to_pylist()], pa.int64()), Errors.where(sevens, "seven")
    )


@given(st.lists(st.integers(0, 20), max_size=40))
def test_only_the_rows_that_make_a_kernel_raise_are_in_error(numbers: list[int]) -> None:
    result = guarded("F", _kernel, [Vector(pa.array(numbers, pa.int64()))], len(numbers), NULL)
    mask = result.errors.mask.tolist() if result.errors else [False] * len(numbers)
    assert mask == [n in (7, 13) for n in numbers]
    good = zip(numbers, result.values.to_pylist(), mask, strict=True)
    assert all(value == n + 1 for n, value, bad in good if not bad)
    for i, n in enumerate(numbers):
        if n in (7, 13):
            assert result.errors is not None
            assert result.errors.reason(i) == (
                "seven" if n == 7 else "internal error in F: TypeError: thirteen"
            )
