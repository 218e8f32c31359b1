"""Two inputs that come from one source take turns where rows are late.

A late row meets what is held when it comes, so it matters what has come before it on the other
side. A batch of the source reaches the inputs one after the other; cut around each late row, they
see its rows in the order in which they came."""

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
    """The parts of one batch of the source, by port, in pieces of which each late row is one; whole
    where no row is late, or where nobody knows which rows of the source they were."""
    places = _places(batches)
    if places is None or not any(flags.any() for flags in late):
        yield from enumerate(batches)
        return
    starts, since = [0] * len(batches), [b.since for b in batches]
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
    """Before and behind each late row of any input: its place in the source, and the watermark that
    holds there, which it does not change."""
    told: dict[int, int] = {}
    for at, batch, flags in zip(places, batches, late, strict=True):
        told.update(zip(at[flags].tolist(), batch.watermarks()[flags].tolist(), strict=True))
    sides: tuple[Literal["left"], Literal["right"]] = ("left", "right")
    return [(place, side, told[place]) for place in sorted(told) for side in sides]


def _places(batches: Sequence[Batch]) -> list[IntArray] | None:
    """Which rows of the source they are, in numbers that grow."""
    offsets = [b.offsets for b in batches if b.offsets is not None]
    if len(offsets) == len(batches) and not any((o == NO_OFFSET).any() for o in offsets):
        return offsets
    first, *others = [b.watermarks() for b in batches]
    if all(np.array_equal(first, other) for other in others):  # each row is one in every part
        return [np.arange(len(first))] * len(batches)
    return None
