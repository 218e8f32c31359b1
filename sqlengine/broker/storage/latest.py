"""A compacted topic as a table."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.broker.base import Records


def latest(read: Callable[[int], Records | None], begin: int) -> dict[bytes, bytes]:
    """The last value per key of what `read` gives from offset `begin` on; keys whose last value is
    NULL are left out."""
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
