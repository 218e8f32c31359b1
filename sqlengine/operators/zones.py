"""Conversion between local time and instants, by Flink's rules for hours that a clock repeats or
skips."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.state.columns import IntArray

_HOUR_MS = 3_600_000


def to_local(instants: IntArray, zone: str) -> IntArray:
    """Returns the local time in `zone` at these instants (ms), as ms of a day in UTC."""
    if zone == "UTC":
        return instants
    local = pc.local_timestamp(pa.array(instants).cast(pa.timestamp("ms", zone)))
    milliseconds: IntArray = local.view(pa.int64()).to_numpy(zero_copy_only=False)
    return milliseconds


def to_instants(local: IntArray, zone: str) -> IntArray:
    """Returns the instants (ms) of local times in `zone`.

    Of a repeated hour the first; a time within a skipped hour lies as many ms after the skip as it
    lies in the hour.
    """
    if zone == "UTC":
        return local
    shown = pa.array(local).view(pa.timestamp("ms"))
    near = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="earliest")
    instants: IntArray = near.view(pa.int64()).to_numpy(zero_copy_only=False)
    offsets: IntArray = to_local(instants, zone) - instants
    return local - offsets


def timer_instants(local: IntArray, zone: str) -> IntArray:
    """Returns the instants at which a timer for `local` fires.

    Of a repeated hour the last; for a time within a skipped hour, the beginning of that hour.
    """
    first = to_instants(local, zone)
    if zone == "UTC":
        return first
    hour_later = to_instants(local + _HOUR_MS, zone)
    twice = hour_later - first > _HOUR_MS
    never = hour_later == first
    return np.where(twice, hour_later - _HOUR_MS, np.where(never, first - first % _HOUR_MS, first))
