"""Row kinds as vectors: helpers for operators that consume and emit changelogs."""

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
    """Returns the kind of each row."""
    return np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds


def retractions(batch: Batch) -> BoolArray | None:
    """Returns True for rows that retract (-U, -D); None where there are none."""
    if batch.kinds is None:
        return None
    retracts: BoolArray = (batch.kinds == UPDATE_BEFORE) | (batch.kinds == DELETE)
    return retracts if retracts.any() else None


def first_seen(slots: IntArray) -> IntArray:
    """Returns the distinct slots in order of first occurrence."""
    distinct, first = np.unique(slots, return_index=True)
    ordered: IntArray = distinct[np.argsort(first)]
    return ordered


def plain(kinds: Kinds) -> Kinds | None:
    """Returns the kinds in the form of a batch: None where all are +I."""
    return kinds if kinds.any() else None


def differ(old: list[pa.Array], new: list[pa.Array], count: int) -> BoolArray:
    """Returns True where any column differs; NULL equals NULL, and as in Flink a NaN never equals
    the old value."""
    result = np.zeros(count, np.bool_)
    for a, b in zip(old, new, strict=True):
        if pa.types.is_nested(a.type):
            result |= np.fromiter(
                (x != y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)), np.bool_, count
            )
            continue
        # NULL on either side gives NULL here; one side alone being NULL is a difference by
        # `validity`.
        unequal = pc.fill_null(pc.not_equal(a, b), pa.scalar(False))
        result |= np.asarray(unequal) | (validity(a) != validity(b))
    return result


def sequence(existed: BoolArray, exists: BoolArray, changed: BoolArray) -> tuple[IntArray, Kinds]:
    """Returns the keys to emit and the kind of each output row: an update is two rows, -U
    and +U."""
    at = np.flatnonzero(changed)
    pairs = existed[at] & exists[at]
    keys = np.repeat(at, np.where(pairs, 2, 1))
    kinds = np.where(exists[keys], INSERT, DELETE).astype(np.int8)
    first = np.cumsum(np.where(pairs, 2, 1)) - np.where(pairs, 2, 1)
    kinds[first[pairs]] = UPDATE_BEFORE
    kinds[first[pairs] + 1] = UPDATE_AFTER
    return keys, kinds
