"""The committed offsets of consumer groups: a compacted topic, with its last values in memory."""

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
    """The committed offsets in the topic `_offsets`; `append` writes keys and values to it as one
    batch."""

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
            # Only after the append: a commit that failed must not be visible.
            self._known.update(entries)
            if self._log.size > max(_COMPACT_BYTES, 2 * self._compacted_size):
                # The offsets are committed in any case; the next commit compacts again.
                with suppress(BrokerError):
                    self._compact()
                self._compacted_size = self._log.size

    def cut_back(self, end_of: Callable[[str, int], int | None]) -> None:
        """Lowers offsets beyond the end of their shard, whose records a power failure has lost;
        leaves those of a shard whose end is not known (None).

        The group continues with the records that replace them. Without disk space the offsets stay
        until the next start.
        """
        with self._lock:
            known = list(self._known.items())
        for (group, topic, shard), offset in known:
            end = end_of(topic, shard)
            if end is not None and offset > end:
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
        """Returns group -> topic -> shard -> offset."""
        offsets_of: dict[str, dict[str, dict[int, int]]] = {}
        with self._lock:
            for (group, topic, shard), offset in sorted(self._known.items()):
                offsets_of.setdefault(group, {}).setdefault(topic, {})[shard] = offset
        return offsets_of

    def topics(self) -> set[str]:
        with self._lock:
            return {topic for _, topic, _ in self._known}

    def remove_topic(self, topic: str) -> None:
        """Removes the offsets committed for `topic`."""
        self._remove(lambda _, committed: committed == topic)

    def remove_group(self, group: str) -> None:
        """Removes the offsets committed by `group`."""
        self._remove(lambda owner, _: owner == group)

    def _remove(self, matches: Callable[[str, str], bool]) -> None:
        with self._lock:
            removed = [key for key in self._known if matches(key[0], key[1])]
            if removed:
                self._append([*map(msgspec.json.encode, removed)], [None] * len(removed))
            for key in removed:
                del self._known[key]
