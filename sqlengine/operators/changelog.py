"""Row kinds in vectors: what an operator that keeps a result needs to take and to tell changes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from sqlengine.batch import Batch, RowKind
from sqlengine.state.columns import BoolArray, IntArray

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
