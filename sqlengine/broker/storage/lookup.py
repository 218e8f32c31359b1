"""Finds the last record of a key by an index in memory."""

from __future__ import annotations

import threading

from sqlengine.broker.base import LookupResult
from sqlengine.broker.storage.reading import ReadBounds
from sqlengine.broker.storage.shard import ShardLog

_CHUNK = ReadBounds(100_000, 8 << 20, None)
_ONE = ReadBounds(1, 1, None)


class KeyIndex:
    """Maps the keys of a shard to the offsets of their last records.

    Reads the shard at the first lookup, and new records with each further one; holds an entry per
    key with a value.
    """

    def __init__(self, log: ShardLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._places: dict[bytes, int] = {}
        self._reached = log.begin

    def find(self, key: bytes) -> LookupResult | None:
        """Returns the record; None if there is none, or it is a tombstone."""
        while True:
            with self._lock:
                self._catch_up()
                offset = self._places.get(key)
            if offset is None:
                return None
            records = self._log.read(offset, _ONE)
            if records is not None and records.num_rows and records.first_offset == offset:
                value: bytes = records.values[0].as_py()
                return LookupResult(self._log.shard, offset, int(records.timestamps[0]), value)
            # A later record of the key arrived, and compaction removed this one: look again.

    def _catch_up(self) -> None:
        self._reached = max(self._reached, self._log.begin)
        while (records := self._log.read(self._reached, _CHUNK)) is not None:
            keys = records.keys.to_pylist() if records.keys is not None else []
            present = records.values.is_valid().to_pylist()
            for key, offset, is_present in zip(
                keys, records.offsets.tolist(), present, strict=False
            ):
                if is_present:
                    self._places[key] = offset
                else:
                    self._places.pop(key, None)
            self._reached = records.next_offset
