"""Local time and instants, by Flink's rules for the hours that a clock shows twice or not at
all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.state.columns import IntArray

_HOUR_MS = 3_600_000


def to_local(instants: IntArray, zone: str) -> IntArray:
    """What a clock in `zone` shows at these instants (ms), as ms of a day in UTC."""
    if zone == "UTC":
        return instants
    local = pc.local_timestamp(pa.array(instants).cast(pa.timestamp("ms", zone)))
    shown: IntArray = local.view(pa.int64()).to_numpy(zero_copy_only=False)
    return shown


def to_instants(local: IntArray, zone: str) -> IntArray:
    """The instants (ms) at which a clock in `zone` shows `local`: the first of two, and where the
    clock skips them, as many ms after the skip as `local` lies in it."""
    if zone == "UTC":
        return local
    shown = pa.array(local).view(pa.timestamp("ms"))
    near = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="earliest")
    instants: IntArray = near.view(pa.int64()).to_numpy(zero_copy_only=False)
    offsets: IntArray = to_local(instants, zone) - instants
    return local - offsets


def timer_instants(local: IntArray, zone: str) -> IntArray:
    """The instants at which a timer for `local` goes off: the last of two, and where the clock
    skips them, the hour in which it does."""
    first = to_instants(local, zone)
    if zone == "UTC":
        return first
    hour_later = to_instants(local + _HOUR_MS, zone)
    twice = hour_later - first > _HOUR_MS
    never = hour_later == first
    return np.where(twice, hour_later - _HOUR_MS, np.where(never, first - first % _HOUR_MS, first))
