"""The rows of shadows, and those of the live versions beside them, as topics of the system have
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.broker.base import Broker, Records
from sqlengine.broker.errors import OffsetOutOfRange, TopicNotFound
from sqlengine.connectors.shadow import LIVE_ROWS, SHADOW_ROWS, shadow_key

TOPICS: Final = (SHADOW_ROWS, LIVE_ROWS)


class RowCounts:
    """Counts the rows of shadows and of the live versions beside them: each read goes on where the
    last one ended, so that a look costs what has come since. One thread at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._read: dict[str, int] = {}
        self._counts: dict[str, Counter[bytes]] = {topic: Counter() for topic in TOPICS}

    def refresh(self, since_ms: int) -> None:
        """Reads on; the first time from `since_ms` on, before which nobody asks for anything."""
        for topic in TOPICS:
            for records in records_of(self._broker, topic, self._read.get(topic), since_ms):
                assert records.keys is not None, "every row has the key of its shadow"
                found = pc.value_counts(records.keys).to_pylist()
                self._counts[topic].update({c["values"]: c["counts"] for c in found})
                self._read[topic] = records.next_offset

    def of(self, rule: str, version: int) -> tuple[int, int]:
        """Returns the rows of a shadow, and of the live version beside it."""
        key = shadow_key(rule, version)
        return self._counts[SHADOW_ROWS][key], self._counts[LIVE_ROWS][key]


def records_of(
    broker: Broker, topic: str, offset: int | None, since_ms: int = 0
) -> Iterator[Records]:
    """Yields the records of a topic from an offset on (None: those since a time), without those
    that are gone; none where there is no topic yet."""
    try:
        begin = broker.begin_offset(topic, 0)
        start = broker.offset_for_time(topic, 0, since_ms) if offset is None else offset
        at = max(begin, start)
        while (records := broker.read(topic, 0, at)) is not None:
            yield records
            at = records.next_offset
    except (TopicNotFound, OffsetOutOfRange):  # what it drops meanwhile, the next look passes over
        return


def rows_of(
    broker: Broker, topic: str, key: bytes, since_ms: int, end: int | None
) -> Iterator[bytes]:
    """Yields the records before offset `end` of a shadow, or of the live version beside it."""
    mine = pa.scalar(key, pa.binary())
    for records in records_of(broker, topic, None, since_ms):
        wanted = pc.equal(records.keys, mine)
        if end is not None and records.next_offset > end:
            wanted = pc.and_(wanted, pa.array(records.offsets < end))
        yield from records.values.filter(wanted).to_pylist()
        if end is not None and records.next_offset >= end:
            return


def ends_of(broker: Broker) -> dict[str, int]:
    """Returns the ends of both topics: between two epochs of a graph both have the same of its
    shadows."""
    known = {topic.name for topic in broker.topics()}
    return {topic: broker.end_offset(topic, 0) if topic in known else 0 for topic in TOPICS}


def first_ms(broker: Broker, topic: str) -> int:
    """Returns the time of the oldest row that a topic still has, if it has dropped any; else 0."""
    try:
        begin = broker.begin_offset(topic, 0)
        records = broker.read(topic, 0, begin, max_records=1) if begin else None
    except (TopicNotFound, OffsetOutOfRange):
        return 0
    return 0 if records is None else int(records.timestamps[0])
