"""Functions over frames of ordered rows, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType
from planner.logical import OverCall
from sqlengine.batch import IntArray
from sqlengine.state.columns import validity
from udf.aggregates.accumulators import Aggregate, empty_accumulator, to_arrow_column
from udf.aggregates.basic import Sum
from udf.aggregates.registry import bind_aggregate
from udf.vector import Vector

# The number of pairs of a row and a row of its frame to process at a time; frames overlap.
_PAIRS = 1 << 21
NUMBERING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
SHARES = frozenset({"PERCENT_RANK", "CUME_DIST", "NTILE"})


@dataclass(frozen=True)
class Ordered:
    """Rows by partition, in order.

    For each row the index of the first row of its partition, and of the first and last of its
    peers: the rows of its partition that are equal in the order.
    """

    partition: IntArray
    first_peer: IntArray
    last_peer: IntArray

    def __len__(self) -> int:
        return len(self.partition)


def in_order(groups: IntArray, order: Sequence[IntArray]) -> Ordered:
    """Returns the partitions and peers of rows that are sorted by their group and by the numbers in
    `order`."""
    count = len(groups)
    begins = np.ones(count, np.bool_)
    begins[1:] = groups[1:] != groups[:-1]
    # A partition begins a group of peers even where the order columns are equal across the border.
    peers = begins.copy()
    for column in order:
        peers[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(peers)
    of = np.cumsum(peers) - 1
    ends = np.append(starts[1:], count) - 1
    return Ordered(np.flatnonzero(begins)[np.cumsum(begins) - 1], starts[of], ends[of])


def last_rows(rows: Ordered) -> IntArray:
    """Returns for each row the index of the last row of its partition."""
    last: IntArray = np.searchsorted(rows.partition, rows.partition, "right") - 1
    return last


def relative_position(call: OverCall, rows: Ordered, seen: IntArray) -> pa.Array:
    """Computes PERCENT_RANK, CUME_DIST and NTILE, which need all rows of a partition; `seen` is the
    size of each row's frame."""
    count = last_rows(rows) - rows.partition + 1
    if call.function == "PERCENT_RANK":
        return pa.array((rows.first_peer - rows.partition) / np.maximum(count - 1, 1))
    if call.function == "CUME_DIST":
        return pa.array(seen / count)
    at, tiles = seen - 1, call.constants[0]
    size, larger = np.divmod(count, tiles)  # the first tiles have one row more
    # For 10 rows and 4 tiles: size 2, 2 larger tiles of 3 rows, border 6; rows from 6 on are in
    # tiles of 2.
    border = larger * (size + 1)
    behind = larger + (at - border) // np.maximum(size, 1)
    return pa.array(np.where(at < border, at // (size + 1), behind) + 1)


def number(function: str, rows: Ordered) -> pa.Array:
    """Computes ROW_NUMBER, RANK and DENSE_RANK."""
    if function == "ROW_NUMBER":
        numbers = np.arange(len(rows)) - rows.partition + 1
    elif function == "RANK":
        numbers = rows.first_peer - rows.partition + 1
    else:
        firsts = np.cumsum(rows.first_peer == np.arange(len(rows)))
        numbers = firsts - firsts[rows.partition] + 1
    return pa.array(numbers)


def lag_or_lead(
    call: OverCall,
    rows: Ordered,
    values: Sequence[pa.Array],
    places: IntArray | None = None,
    known: IntArray | None = None,
) -> pa.Array:
    """Computes LAG and LEAD: the value some rows before or after in the partition, or the default.

    The default applies where there is no such row, or where the result may not be NULL. `places`:
    the row from which each row counts, if it is another one. `known`: how many rows LAG can look
    back, if not the whole partition.
    """
    own = np.arange(len(rows)) if places is None else places
    offset = call.constants[0] if call.constants else offsets(values)[own]
    at = own + (offset if call.function == "LEAD" else -offset)
    exists = (at >= rows.partition) & (at <= last_rows(rows))
    if known is not None:
        exists &= known[own] > offset
    neighbours = values[0].take(pa.array(np.where(exists, at, 0), mask=~exists))
    if len(values) + len(call.constants) == 2:
        return neighbours
    default = values[1].cast(neighbours.type)
    return (
        pc.if_else(exists, neighbours, default)
        if call.type.nullable
        else pc.coalesce(neighbours, default)
    )


def offsets(values: Sequence[pa.Array]) -> IntArray:
    """Returns the offsets of LAG and LEAD that are not literals."""
    numbers: IntArray = values[-1].to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def lag_reach(offset: IntArray, rows: Ordered) -> IntArray:
    """Returns how many rows LAG with varying offsets can look back, the row included.

    As in Flink, a row farther back than an offset is removed for good.
    """
    reaches: list[int] = []
    for i, (start, reach) in enumerate(zip(rows.partition.tolist(), offset.tolist(), strict=True)):
        # One row more than the row before could see, but never more than its own offset asks to
        # keep.
        reaches.append(min(reaches[-1] + 1 if i > start else 1, reach + 1))
    return np.array(reaches, np.int64)


def bound_of(call: OverCall, moves: bool = False) -> Aggregate:
    """Returns the aggregate function of a call; `moves`: rows leave its frames."""
    kinds = () if call.argument_type is None else (call.argument_type,)
    bound = bind_aggregate(
        call.function, kinds, grouped=True, retract=moves and call.function in ("MIN", "MAX")
    )
    return replace(bound, from_zero=True) if isinstance(bound, Sum) else bound


def aggregate(
    call: OverCall, values: pa.Array | None, low: IntArray, high: IntArray, *, moves: bool = False
) -> pa.Array:
    """Returns the aggregate over the rows `low[i]` to `high[i]` (inclusive; none if `high[i]` is
    `low[i] - 1`), for each i.

    `moves`: rows leave the frames, which decides how MIN and MAX order NaN and the zeros.
    """
    if call.function == "COUNT" and values is None:
        return pa.array(high - low + 1)
    if values is not None and _adds(call.function, call.type):
        return _sums(call, values, low, high)
    bound = bound_of(call, moves and pa.types.is_floating(call.type.arrow))
    parts: list[pa.Array] = []
    for start, end in _chunks(high - low + 1):
        parts.append(_expanded(bound, values, low[start:end], high[start:end]))
    return pa.concat_arrays(parts) if parts else pa.array([], call.type.arrow)


def _adds(function: str, kind: DataType) -> bool:
    """True if differences of prefix sums give the result exactly."""
    return function == "COUNT" or (function == "SUM" and kind.is_integer)


def _sums(call: OverCall, values: pa.Array, low: IntArray, high: IntArray) -> pa.Array:
    counts = np.concatenate([[0], np.cumsum(validity(values))])
    count = counts[high + 1] - counts[low]
    if call.function == "COUNT":
        return pa.array(count)
    numbers = values.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        # Prefix sums may wrap around; their differences are right modulo 2^64, as BIGINT sums are.
        sums = np.concatenate([[0], np.cumsum(numbers)])
        return to_arrow_column(sums[high + 1] - sums[low], count > 0, call.type)


def _chunks(lengths: IntArray) -> list[tuple[int, int]]:
    """Returns ranges of rows whose frames have at most `_PAIRS` rows together."""
    ends = np.cumsum(lengths)
    chunks, start = [], 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _PAIRS, "right")))
        chunks.append((start, end))
        start = end
    return chunks


def _expanded(bound: Aggregate, values: pa.Array | None, low: IntArray, high: IntArray) -> pa.Array:
    lengths = high - low + 1
    count = len(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    rows = np.arange(int(lengths.sum())) - np.repeat(offsets - low, lengths)
    accumulator = empty_accumulator(bound.accumulators, count)
    taken = None if values is None else values.take(pa.array(rows))
    bound.update(
        accumulator, np.repeat(np.arange(count), lengths), taken, np.ones(len(rows), np.bool_)
    )
    result = bound.result(accumulator, np.arange(count))
    return result.array(count) if isinstance(result, Vector) else result
