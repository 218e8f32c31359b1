"""Row kinds in vectors: what an operator that keeps a result needs to take and to tell changes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.batch import Batch, RowKind
from sqlengine.state.columns import BoolArray, IntArray, validity

Kinds = npt.NDArray[np.int8]

INSERT: Final = np.int8(RowKind.INSERT)
UPDATE_BEFORE: Final = np.int8(RowKind.UPDATE_BEFORE)
UPDATE_AFTER: Final = np.int8(RowKind.UPDATE_AFTER)
DELETE: Final = np.int8(RowKind.DELETE)


def kinds_of(batch: Batch) -> Kinds:
    """The kind of each row."""
    return np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds


def takes_back(batch: Batch) -> BoolArray | None:
    """Which rows say that a row is no more (-U, -D); None where none does."""
    if batch.kinds is None:
        return None
    back: BoolArray = (batch.kinds == UPDATE_BEFORE) | (batch.kinds == DELETE)
    return back if back.any() else None


def first_seen(slots: IntArray) -> IntArray:
    """Distinct slots in the order in which they come first."""
    distinct, first = np.unique(slots, return_index=True)
    ordered: IntArray = distinct[np.argsort(first)]
    return ordered


def plain(kinds: Kinds) -> Kinds | None:
    """Kinds for a batch: None where all are +I."""
    return kinds if kinds.any() else None


def differ(old: list[pa.Array], new: list[pa.Array], count: int) -> BoolArray:
    """Where any column has another value; two NULLs are the same, and as in Flink a NaN is never
    what it was."""
    result = np.zeros(count, np.bool_)
    for a, b in zip(old, new, strict=True):
        if pa.types.is_nested(a.type):
            result |= np.fromiter(
                (x != y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)), np.bool_, count
            )
            continue
        unequal = pc.fill_null(pc.not_equal(a, b), pa.scalar(False))
        result |= np.asarray(unequal) | (validity(a) != validity(b))
    return result


def sequence(existed: BoolArray, exists: BoolArray, told: BoolArray) -> tuple[IntArray, Kinds]:
    """Which keys to tell of, and with what kind: -U and +U are two rows."""
    at = np.flatnonzero(told)
    pairs = existed[at] & exists[at]
    which = np.repeat(at, np.where(pairs, 2, 1))
    kinds = np.where(exists[which], INSERT, DELETE).astype(np.int8)
    first = np.cumsum(np.where(pairs, 2, 1)) - np.where(pairs, 2, 1)
    kinds[first[pairs]] = UPDATE_BEFORE
    kinds[first[pairs] + 1] = UPDATE_AFTER
    return which, kinds
