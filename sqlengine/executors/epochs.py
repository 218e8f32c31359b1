"""The epoch log: what each step of a graph depended on, written before the step's output.

An epoch is one step of a graph from one position to the next. Its record holds whatever processing
depends on besides state and rows, so that after a crash the same steps give the same rows. Hot
changes, shards that appear and sources that end are entries of the same log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import msgspec

from sqlengine.broker.base import Broker
from sqlengine.system.format_numbers import check_number, check_record

EPOCHS = "_epochs"
FORMAT = 1
# An epoch that nobody wrote down.
UNLOGGED = -1


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of one shard of one source (the scan's id in the graph)."""

    source: str
    shard: str
    start: int
    end: int


@dataclass(frozen=True)
class LoggedChange:
    """A hot change between two epochs: the graph's version after it, the job versions that came (0:
    the job went), where the sources that came with it begin, jobs that took up the state of another
    name (new name to old), and the handover of the one job that came from another graph."""

    version: int
    jobs: dict[str, int] = field(default_factory=dict)
    starts: dict[str, dict[str, int]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    handover: str = ""


@dataclass(frozen=True)
class ReplayedRecord:
    """A record that goes to one job again: the dead letter that it is for, the scan, the record's
    place, its bytes (None where it is read again from its place), and the statements of the job
    that did not see it, by number."""

    letter: int
    source: str
    shard: str
    offset: int
    record: bytes | None
    places: tuple[int, ...]


@dataclass(frozen=True)
class Replay:
    """Records of dead letters that go through version `version` of `job`, and through no other
    job."""

    job: str
    version: int
    rows: tuple[ReplayedRecord, ...]


@dataclass(frozen=True)
class EpochRecord:
    """One entry. `ranges` in reading order; `opened`: (source, shard) seen for the first time;
    `ended`: sources whose bounded input is read to its end; `proctime` in ms; `tick`: an operator
    waits for that, which is told before any row; `change` and `replay` stand alone in their
    records. `after`: the epoch before, where numbers were left out, or UNTOLD."""

    graph: str
    epoch: int
    version: int
    proctime: int
    seed: int
    ranges: tuple[OffsetRange, ...] = ()
    opened: tuple[tuple[str, str], ...] = ()
    ended: tuple[str, ...] = ()
    change: LoggedChange | None = None
    replay: Replay | None = None
    tick: bool = False
    after: int | None = None
    format: int = FORMAT


class EpochLog(Protocol):
    """Where records go. `offset` counts records; a checkpoint remembers the one behind its epoch.
    `whole`: whether every record is kept."""

    keeps_every_epoch: ClassVar[bool]

    def append(self, record: EpochRecord) -> int:
        """Writes the record and gives the offset behind it."""

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        """Records of this graph from `offset` on, each with the offset behind it."""


class TopicEpochLog:
    """The log as a topic of the broker; graphs share it, records carry the graph's id as their
    key."""

    keeps_every_epoch: ClassVar[bool] = True

    def __init__(self, broker: Broker, graph: str) -> None:
        broker.create_topic(EPOCHS, retention_bytes=1 << 30, if_not_exists=True)
        self._broker = broker
        self._graph = graph

    def append(self, record: EpochRecord) -> int:
        value = msgspec.json.encode(record)
        key = record.graph.encode()
        done = self._broker.append(EPOCHS, 0, [value], keys=[key], timestamp_ms=record.proctime)
        return done.next_offset

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        offset = max(offset, self._broker.begin_offset(EPOCHS, 0))
        while (records := self._broker.read(EPOCHS, 0, offset)) is not None:
            for value, at in zip(records.values.to_pylist(), records.offsets.tolist(), strict=True):
                record = decode_record(value)
                if record.graph == self._graph:
                    yield at + 1, record
            offset = records.next_offset


class ChangeLog(TopicEpochLog):
    """For delivery at least once: of changes alone, since no epoch of rows is repeated."""

    keeps_every_epoch: ClassVar[bool] = False

    def append(self, record: EpochRecord) -> int:
        if record.change is None:
            return self._broker.end_offset(EPOCHS, 0)
        return super().append(replace(record, after=UNLOGGED))


class NoLog:
    """For scripts, which begin anew when they are killed."""

    keeps_every_epoch: ClassVar[bool] = False

    def append(self, record: EpochRecord) -> int:
        return 0

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        return iter(())


def decode_record(value: bytes) -> EpochRecord:
    """A record from its JSON; refuses other formats, whatever else they say."""
    try:
        record = msgspec.json.decode(value, type=EpochRecord)
    except msgspec.ValidationError:
        check_record(value, FORMAT, "an epoch record")
        raise
    check_number(record.format, FORMAT, "an epoch record")
    return record
