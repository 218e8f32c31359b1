"""Interleaves the two inputs of a join that come from one source, where rows are late.

A late row joins the rows that are stored when it arrives, so the result depends on which rows of
the other side came before it. A batch of the source reaches the inputs one after the other; cut
around each late row, the inputs see their rows in the order of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from sqlengine.batch import NO_OFFSET, Batch, IntArray
from sqlengine.state.columns import BoolArray


def interleave_late_rows(
    batches: Sequence[Batch], late: Sequence[BoolArray]
) -> Iterator[tuple[int, Batch]]:
    """Yields the parts of one source batch, by port, cut so that each late row is a piece of its
    own.

    Yields them whole where no row is late, or where the rows' order in the source is unknown.
    """
    places = _places(batches)
    if places is None or not any(flags.any() for flags in late):
        yield from enumerate(batches)
        return
    starts, since = [0] * len(batches), [b.since for b in batches]
    # Each input starts where its last piece ended; the watermark between two pieces is that of the
    # late row, which does not advance it.
    for place, side, watermark in _cuts(places, batches, late):
        ends = [int(np.searchsorted(p, place, side)) for p in places]
        for port, batch in enumerate(batches):
            yield port, _piece(batch, starts[port], ends[port], since[port], watermark)
        starts, since = ends, [watermark] * len(batches)
    for port, batch in enumerate(batches):
        yield port, _piece(batch, starts[port], batch.num_rows, since[port], batch.watermark)


def _piece(batch: Batch, start: int, end: int, since: int, watermark: int) -> Batch:
    return replace(batch.slice(start, end - start), steps=batch.steps).between(since, watermark)


def _cuts(
    places: Sequence[IntArray], batches: Sequence[Batch], late: Sequence[BoolArray]
) -> list[tuple[int, Literal["left", "right"], int]]:
    """Returns the cuts before and after each late row: its place in the source, the side, and the
    watermark there."""
    watermark_at: dict[int, int] = {}
    for at, batch, flags in zip(places, batches, late, strict=True):
        watermark_at.update(
            zip(at[flags].tolist(), batch.watermarks()[flags].tolist(), strict=True)
        )
    sides: tuple[Literal["left"], Literal["right"]] = ("left", "right")
    return [(place, side, watermark_at[place]) for place in sorted(watermark_at) for side in sides]


def _places(batches: Sequence[Batch]) -> list[IntArray] | None:
    """Returns ascending numbers that order the rows of all inputs as in the source; None where they
    are unknown."""
    offsets = [b.offsets for b in batches if b.offsets is not None]
    if len(offsets) == len(batches) and not any((o == NO_OFFSET).any() for o in offsets):
        return offsets
    first, *others = [b.watermarks() for b in batches]
    if all(np.array_equal(first, other) for other in others):  # each row is one in every part
        return [np.arange(len(first))] * len(batches)
    return None
