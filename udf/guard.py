"""Containment of kernels that raise.

A kernel returns errors as masks. One that raises has a fault, which must cost the rows at fault,
not the graph with all its jobs: those rows are found by bisection, and get an error that says
so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from udf.vector import ColumnTooLarge, Errors, Vector

# A kernel over the arguments of so many rows.
Run: TypeAlias = Callable[[Sequence[Vector], int], Vector]


def guarded(name: str, run: Run, args: Sequence[Vector], rows: int, null: pa.Scalar) -> Vector:
    """The kernel's vector; rows for which it raises are in error (`internal error in NAME: …`),
    their value is `null`."""
    try:
        return run(args, rows)
    except ColumnTooLarge:
        raise
    except Exception as error:  # noqa: BLE001  becomes the error of the rows that cause it
        if rows <= 1:
            return _failed(name, error, rows, null)
        sizes = (rows // 2, rows - rows // 2)
        first = guarded(name, run, [sliced(a, 0, sizes[0]) for a in args], sizes[0], null)
        second = guarded(name, run, [sliced(a, *sizes) for a in args], sizes[1], null)
        return joined((first, second), sizes)


def _failed(name: str, error: Exception, rows: int, null: pa.Scalar) -> Vector:
    reason = f"internal error in {name}: {type(error).__name__}: {error}"
    return Vector(pa.repeat(null, rows), Errors.where(np.ones(rows, np.bool_), reason))


def sliced(vector: Vector, start: int, size: int) -> Vector:
    if isinstance(vector.values, pa.Scalar):
        return (
            vector
            if vector.errors is None
            else Vector(vector.values, _slice_errors(vector.errors, start, size))
        )
    errors = None if vector.errors is None else _slice_errors(vector.errors, start, size)
    return Vector(vector.values.slice(start, size), errors)


def _slice_errors(errors: Errors, start: int, size: int) -> Errors:
    part = slice(start, start + size)
    return Errors(errors.mask[part], errors.codes[part], errors.reasons)


def joined(parts: Sequence[Vector], sizes: Sequence[int]) -> Vector:
    """The vectors of so many rows each as one."""
    values = pa.concat_arrays([p.array(n) for p, n in zip(parts, sizes, strict=True)])
    masks, codes = [], []
    reasons: list[str] = []
    for part, size in zip(parts, sizes, strict=True):
        errors = part.errors or Errors(np.zeros(size, np.bool_), np.zeros(size, np.int32), ())
        masks.append(errors.mask)
        codes.append(errors.codes + len(reasons))
        reasons += errors.reasons
    mask = np.concatenate(masks)
    return Vector(
        values, Errors(mask, np.concatenate(codes), tuple(reasons)) if mask.any() else None
    )
