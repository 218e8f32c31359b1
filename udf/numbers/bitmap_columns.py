"""Columns of bitmaps, which are texts such as '{1,2,3}', all at once: as pairs of a row and a
number, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udf.vector import BoolArray

# Row * 2^32 + number, in ascending order and every pair once.
Pairs = npt.NDArray[np.int64]
_SHIFT = np.int64(32)
_LOW = np.int64(2**32 - 1)


def pairs_of(written: pa.Array) -> Pairs:
    """The numbers of all rows; a NULL row has none."""
    parts = pc.split_pattern(pc.utf8_slice_codeunits(written.fill_null("{}"), 1, -1), ",")
    lengths = pc.list_value_length(parts).to_numpy(zero_copy_only=False)
    texts = parts.flatten()
    filled = pc.not_equal(texts, "")
    rows: Pairs = np.repeat(np.arange(len(written), dtype=np.int64), lengths)[
        filled.to_numpy(zero_copy_only=False)
    ]
    numbers: npt.NDArray[np.int64] = (
        texts.filter(filled).cast(pa.int64()).to_numpy(zero_copy_only=False)
    )
    return (rows << _SHIFT) | numbers


def pairs_from(rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> Pairs:
    """Builds pairs from rows and numbers in any order; negative numbers are those of 32 bits."""
    return np.unique((rows << _SHIFT) | (numbers & _LOW))


def written_pairs(pairs: Pairs, present: BoolArray) -> pa.Array:
    """The bitmap of every row, NULL where it is not `present`."""
    lists = _lists(pairs, pa.array(pairs & _LOW).cast(pa.string()), len(present))
    written = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    return (
        written
        if present.all()
        else pc.if_else(pa.array(present), written, pa.scalar(None, pa.string()))
    )


def arrays_of(pairs: Pairs, present: BoolArray) -> pa.Array:
    """The numbers of every row as INT, NULL where it is not `present`."""
    numbers = (pairs & _LOW).astype(np.uint32).view(np.int32)
    lists = _lists(pairs, pa.array(numbers), len(present))
    return (
        lists
        if present.all()
        else pc.if_else(pa.array(present), lists, pa.scalar(None, lists.type))
    )


def _lists(pairs: Pairs, values: pa.Array, num_rows: int) -> pa.Array:
    offsets = np.zeros(num_rows + 1, np.int32)
    np.cumsum(np.bincount(pairs >> _SHIFT, minlength=num_rows), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)
