"""Bounds on what an operator puts out at once, and on what it does in one step.

Memory must not grow with what one step comes to: an operator that makes many rows of few yields
them in slices, and the executor runs the nodes behind it in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from sqlengine.batch import Batch, IntArray, concat
from sqlengine.operators.base import Output, Stream

# The rows of a slice, and what they take in memory at most (bytes), but for a single row.
SLICE_ROWS: Final = 1 << 16
SLICE_BYTES: Final = 1 << 26


def rows_at_once(columns: Sequence[pa.Array], rows: int) -> int:
    """Returns how many rows like these make a slice."""
    per_row: int = max(1, sum(c.nbytes for c in columns) // max(rows, 1))
    return max(1, min(SLICE_ROWS, SLICE_BYTES // per_row))


def in_slices(batch: Batch) -> Iterator[Batch]:
    """Yields the rows of a batch in slices; the batch itself where it is small, or a tick."""
    size = rows_at_once(batch.columns, batch.num_rows)
    if batch.num_rows <= size:
        yield batch
        return
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, min(size, batch.num_rows - start))


def repeated(
    batch: Batch, counts: IntArray, names: Sequence[str] | None = None
) -> Iterator[tuple[Batch, IntArray, IntArray]]:
    """Yields each row as often as its count, in slices, with all columns or only `names`: the rows,
    their numbers in the batch, and the number of each among its copies.

    The last slice, which may be empty, has the watermark of the batch."""
    size, ends = rows_at_once(batch.columns, batch.num_rows), np.cumsum(counts)
    start, since, total = 0, batch.since, int(counts.sum())
    while True:
        places = np.arange(start, min(start + size, total))
        start += size
        rows = np.searchsorted(ends, places, "right")
        part, watermark = batch.take(rows, names), batch.watermark
        if start < total and batch.row_watermarks is not None:
            watermark = int(batch.row_watermarks[np.searchsorted(ends, start, "right")])
        if total > size:
            part = part.between(since, watermark)
        yield part, rows, places - (ends - counts)[rows]
        since = watermark
        if start >= total:
            return


def taken(batch: Batch, rows: IntArray, size: int) -> Iterator[tuple[Batch, slice]]:
    """Yields the rows with these ascending numbers, `size` at a time, and their places. The last
    slice, which may be empty, has the watermark of the batch."""
    since = batch.since
    for start in range(0, max(len(rows), 1), size):
        part, watermark = batch.take(rows[start : start + size]), batch.watermark
        if start + size < len(rows) and batch.row_watermarks is not None:
            watermark = int(batch.row_watermarks[rows[start + size]])
        if len(rows) > size:
            part = part.between(since, watermark)
        yield replace(part, watermark=watermark), slice(start, start + size)
        since = watermark


class Slices:
    """Collects small batches to slices."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._rows = 0

    def add(self, batch: Batch) -> Iterator[Batch]:
        """Adds rows; yields those before them where these make a slice."""
        if not batch.num_rows:
            return
        if self._batches:
            # The first rows tell how large all are.
            first = self._batches[0]
            if self._rows + batch.num_rows > rows_at_once(first.columns, first.num_rows):
                yield from self.take()
        self._batches.append(batch)
        self._rows += batch.num_rows

    def take(self) -> Iterator[Batch]:
        """Yields the rest."""
        if self._batches:
            collected, self._batches, self._rows = concat(self._batches), [], 0
            yield collected


def drained(output: Output) -> Stream:
    """Yields what was collected so far, and empties the list."""
    yield from output
    output.clear()
