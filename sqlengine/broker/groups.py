"""Where groups of consumers go on reading: a compacted topic, and its last values in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compaction import latest
from sqlengine.broker.storage.shard import ShardLog

log = logging.getLogger("sqlengine")

TOPIC = "_offsets"
_COMPACT_BYTES = 1 << 20
_KEY = msgspec.json.Decoder(tuple[str, str, int])

Append = Callable[[list[bytes], list[bytes | None]], None]


class GroupOffsets:
    """The committed offsets over the log of the topic `_offsets`; `append` writes to it keys and
    values as a batch."""

    def __init__(self, log: ShardLog, append: Append, compact: Callable[[], None]) -> None:
        self._append = append
        self._compact = compact
        self._log = log
        self._lock = threading.Lock()
        self._known = {_KEY.decode(key): int(value) for key, value in latest(log).items()}
        self._compacted_size = log.size

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        entries = {(group, topic, shard): offset for shard, offset in offsets.items()}
        with self._lock:
            self._append(
                [*map(msgspec.json.encode, entries)],
                [b"%d" % offset for offset in entries.values()],
            )
            self._known.update(entries)
            if self._log.size > max(_COMPACT_BYTES, 2 * self._compacted_size):
                with suppress(
                    BrokerError
                ):  # the offsets are committed; the next commit tries again
                    self._compact()
                self._compacted_size = self._log.size

    def cut_back(self, end_of: Callable[[str, int], int]) -> None:
        """A loss of power may take records that a group has committed: it goes on with those that
        come in their place. Without space they stay as they are until the next start."""
        with self._lock:
            known = list(self._known.items())
        for (group, topic, shard), offset in known:
            end = end_of(topic, shard)
            if offset > end:
                log.warning(
                    "group %s goes on at offset %d of %s/%d, not %d: the rest is lost",
                    group,
                    end,
                    topic,
                    shard,
                    offset,
                )
                with suppress(BrokerError):
                    self.commit(group, topic, {shard: end})

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with self._lock:
            return {
                key[2]: offset for key, offset in self._known.items() if key[:2] == (group, topic)
            }

    def groups(self) -> dict[str, dict[str, dict[int, int]]]:
        """Group -> topic -> shard -> offset."""
        found: dict[str, dict[str, dict[int, int]]] = {}
        with self._lock:
            for (group, topic, shard), offset in sorted(self._known.items()):
                found.setdefault(group, {}).setdefault(topic, {})[shard] = offset
        return found

    def topics(self) -> set[str]:
        with self._lock:
            return {topic for _, topic, _ in self._known}

    def forget(self, topic: str) -> None:
        """Removes what was committed for `topic`."""
        self._remove(lambda _, committed: committed == topic)

    def forget_group(self, group: str) -> None:
        """Removes what `group` committed."""
        self._remove(lambda owner, _: owner == group)

    def _remove(self, is_gone: Callable[[str, str], bool]) -> None:
        with self._lock:
            gone = [key for key in self._known if is_gone(key[0], key[1])]
            if gone:
                self._append([*map(msgspec.json.encode, gone)], [None] * len(gone))
            for key in gone:
                del self._known[key]
