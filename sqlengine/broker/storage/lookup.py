"""The last record of a key, found by an index in memory."""

from __future__ import annotations

import threading

from sqlengine.broker.base import Found
from sqlengine.broker.storage.reading import ReadBounds
from sqlengine.broker.storage.shard import ShardLog

_CHUNK = ReadBounds(100_000, 8 << 20, None)
_ONE = ReadBounds(1, 1, None)


class KeyIndex:
    """Where the last record of each key of a shard stands. It reads the shard when it is first
    asked, and what came since with each question; it holds an entry per key that has a value."""

    def __init__(self, log: ShardLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._places: dict[bytes, int] = {}
        self._reached = log.begin

    def find(self, key: bytes) -> Found | None:
        """The record; None when there is none or its value is NULL."""
        while True:
            with self._lock:
                self._catch_up()
                offset = self._places.get(key)
            if offset is None:
                return None
            records = self._log.read(offset, _ONE)
            if records is not None and records.num_rows and records.first_offset == offset:
                value: bytes = records.values[0].as_py()
                return Found(self._log.shard, offset, int(records.timestamps[0]), value)
            # A later record of the key came, and compaction removed this one.

    def _catch_up(self) -> None:
        self._reached = max(self._reached, self._log.begin)
        while (records := self._log.read(self._reached, _CHUNK)) is not None:
            keys = records.keys.to_pylist() if records.keys is not None else []
            present = records.values.is_valid().to_pylist()
            for key, offset, there in zip(keys, records.offsets.tolist(), present, strict=False):
                if there:
                    self._places[key] = offset
                else:
                    self._places.pop(key, None)
            self._reached = records.next_offset
