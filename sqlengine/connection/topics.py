"""Topics as objects: `connection.topics` holds all, `connection.topics["name"]` is one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from parser.errors import ServiceError

if TYPE_CHECKING:
    from sqlengine.broker.base import Broker

# Seconds for which new records are waited for at once: so long Ctrl-C may have to wait.
_TURN_S: Final = 0.5


@dataclass(frozen=True)
class TopicRecord:
    """A record of a topic. `value` is None for a tombstone; `timestamp_ms` counts from 1970."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    def json(self) -> object:
        """Returns the value, which is JSON; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)


class Topics:
    """All topics: iterate over their names, sorted; those of the system begin with '_'."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(topic.name for topic in self._broker().topics()))

    def __len__(self) -> int:
        return len(self._broker().topics())

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __getitem__(self, name: str) -> Topic:
        """Returns a topic by name; what is done with one that does not exist says so."""
        return Topic(self._broker, name)

    def create(self, name: str, shards: int = 1, *, if_not_exists: bool = False) -> Topic:
        """Creates a topic. Raises TopicExists if there is one, unless `if_not_exists`."""
        from sqlengine.broker.topic_access import refuse_system

        refuse_system(name)
        self._broker().create_topic(name, shards, if_not_exists=if_not_exists)
        return self[name]


class Topic:
    """A topic by name."""

    def __init__(self, broker: Callable[[], Broker], name: str) -> None:
        self._broker = broker
        self.name = name

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    def write(
        self,
        records: Iterable[bytes | str | Mapping[str, object]],
        *,
        shard: int = 0,
        key: bytes | None = None,
    ) -> int:
        """Appends records in one batch, and returns the offset of the first.

        A mapping is written as JSON, text as UTF-8. All get the same `key`.
        """
        from sqlengine.broker.topic_access import refuse_system

        refuse_system(self.name)
        if isinstance(records, str | bytes | Mapping):
            raise ServiceError(
                f"records come as a list, not as one {type(records).__name__}",
                hint=f"connection.topics[{self.name!r}].write([record])",
            )
        values = [_record_bytes(record) for record in records]
        keys = None if key is None else [key] * len(values)
        now_ms = time.time_ns() // 1_000_000
        broker = self._broker()
        return broker.append(self.name, shard, values, keys=keys, timestamp_ms=now_ms).first_offset

    def read(
        self, *, shard: int = 0, offset: int | str = "earliest", limit: int = 1000
    ) -> list[TopicRecord]:
        """Returns at most `limit` records of a shard from `offset` on, without waiting for more.

        `offset` is a number, 'earliest', 'latest' or a time such as '2026-01-31T12:00' (UTC). The
        next read begins behind the last record: `records[-1].offset + 1`.
        """
        from sqlengine.broker.topic_access import find_offset

        broker = self._broker()
        start = find_offset(broker, self.name, shard, str(offset))
        records = broker.read(self.name, shard, start, max_records=limit)
        if records is None:
            return []
        count = records.num_rows
        keys = [None] * count if records.keys is None else records.keys.to_pylist()
        columns = (records.offsets.tolist(), records.timestamps.tolist(), keys)
        return [TopicRecord(*row) for row in zip(*columns, records.values.to_pylist(), strict=True)]

    def tail(self, *, offset: int | str = "latest") -> Iterator[TopicRecord]:
        """Yields the records of all shards from `offset` on, and waits for more, without end. The
        records of one shard come in order."""
        from sqlengine.broker.topic_access import find_offset

        broker = self._broker()
        shards = range(broker.topic(self.name).shards)
        starts = {s: find_offset(broker, self.name, s, str(offset)) for s in shards}
        return self._tail(broker, starts)

    def _tail(self, broker: Broker, next_: dict[int, int]) -> Iterator[TopicRecord]:
        while True:
            found = False
            for shard, start in next_.items():
                for record in self.read(shard=shard, offset=start):
                    found = True
                    next_[shard] = record.offset + 1
                    yield record
            if not found:
                broker.wait_for_data(_TURN_S)

    def delete(self) -> None:
        """Deletes the topic and its records."""
        from sqlengine.broker.topic_access import refuse_system

        refuse_system(self.name)
        self._broker().delete_topic(self.name)


def _record_bytes(record: bytes | str | Mapping[str, object]) -> bytes:
    if isinstance(record, bytes):
        return record
    if not isinstance(record, str | Mapping):
        raise ServiceError(f"a record is bytes, text or a mapping, not {record!r:.60}")
    text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
    return text.encode()
