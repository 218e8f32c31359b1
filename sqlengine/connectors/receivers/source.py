"""Reading what a receiver takes: the source of a topic, which tells how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from parser.errors import ServiceError
from planner.catalog import Table
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment, is_rehearsal
from sqlengine.connectors.receivers.base import Stream
from sqlengine.connectors.receivers.service import Reading, Wanted
from sqlengine.connectors.topic.rows import TopicRows
from sqlengine.connectors.topic.source import TopicSource
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, choice, duration
from sqlengine.system.sizes import size

# The options of every table that a receiver fills.
RECEIVE_OPTIONS: Final[Mapping[str, Option]] = {
    "scan.startup.mode": Option(
        choice("latest-offset", "earliest-offset", "timestamp"),
        default="latest-offset",
        doc="where a new job begins in what was received: at its end, or with what is kept",
    ),
    "scan.startup.timestamp-millis": Option(
        at_least(0), doc="where the mode 'timestamp' begins: a time of receipt"
    ),
    "receive.max-unread": Option(
        size, default="256 mb", doc="no more is taken while a job has so much to read"
    ),
    "receive.retention": Option(
        duration, default="1 h", doc="how long messages are kept that all jobs have read"
    ),
    "receive.retention-size": Option(size, default="1 gb", doc="how much of these is kept at most"),
}


def as_written(
    options: Mapping[str, object], table: Table, environment: Environment
) -> dict[str, object]:
    """Returns the options of a table, with references in the place of secrets: of these a stream
    has its name, which is stored, and shown to whoever sees metrics."""
    written = environment.written or {}
    return {**options, **{k: v for k, v in written.items() if v != table.options.get(k)}}


def stream_of(
    place: str, what: Mapping[str, str], options: Mapping[str, object], lasting_ms: int
) -> Stream:
    """Returns the stream of a table with `RECEIVE_OPTIONS`; see `Stream`."""
    unread, kept_ms, kept = (
        options[f"receive.{name}"] for name in ("max-unread", "retention", "retention-size")
    )
    assert isinstance(unread, int)
    assert isinstance(kept_ms, int)
    assert isinstance(kept, int)
    return Stream(place, dict(what), unread, kept_ms, kept, lasting_ms)


class ReceivedSource(TopicSource):
    """Reads the log of a stream. Without a receiver in this process it reads what others take."""

    def __init__(
        self,
        environment: Environment,
        table: Table,
        options: Mapping[str, object],
        wanted: Wanted,
        rows: TopicRows,
    ) -> None:
        broker = environment.broker
        if broker is None:
            raise ServiceError("there is no broker here", hint="name a data folder: --data DIR")
        topic = wanted.stream.topic
        receivers = environment.receivers
        self._reading: Reading | None = None
        if receivers is not None and not is_rehearsal():
            self._reading = receivers.open(wanted)
            self.health = self._reading.health
        elif not is_rehearsal():
            broker.create_topic(topic, 1, if_not_exists=True)
        try:
            super().__init__(
                broker,
                replace(table, options={**table.options, "topic": topic}),
                {**options, "properties.group.id": None, "scan.bounded.mode": "unbounded"},
                environment.assignment,
                1,
            )
        except BaseException:
            self.close()
            raise
        self._rows = rows
        self._at_end = options["scan.startup.mode"] == "latest-offset"

    def start(self, shard: str) -> int:
        """See `Source`. The end is that of when it was opened: what a server kept for those who
        subscribe may have come before the job begins."""
        offset = super().start(shard)
        if self._reading is not None:
            offset = self._reading.opened if self._at_end else offset
            self._reading.begins(offset)
        return offset

    def resume(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        """See `Source`."""
        if self._reading is not None and positions:
            self._reading.begins(min(positions.values()))

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`."""
        found = super().read(shard, offset, max_rows=max_rows, until=until)
        if self._reading is not None:
            self._reading.moved(offset if found is None else found.end)
        return found

    def notify_checkpoint(self, positions: Mapping[str, int]) -> None:
        """See `Source`. What was read before may go."""
        if self._reading is not None and positions:
            self._reading.checkpointed(min(positions.values()))

    def close(self) -> None:
        """See `Source`."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None
