"""Reads a compacted topic as a table."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.broker.base import Records


def latest_values(read: Callable[[int], Records | None], begin: int) -> dict[bytes, bytes]:
    """Returns the last value per key from offset `begin` on, without keys whose last value
    is NULL."""
    values: dict[bytes, bytes] = {}
    position = begin
    while (records := read(position)) is not None:
        keys = records.keys.to_pylist() if records.keys is not None else []
        for key, value in zip(keys, records.values.to_pylist(), strict=False):
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        position = records.next_offset
    return values
