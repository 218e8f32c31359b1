"""What the leader of a divided graph and its instances tell each other, through topics of the
broker.

The control topic is a log that all of them read in order: a change is prepared by all instances,
and then they all switch to it or it is given up. A part that is opened later makes up for the
switches that it has not seen; the version of its graph says which. Answers and reports of instances
are in another topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from parser.errors import ServiceError
from sqlengine.broker.base import Broker, system_topic
from sqlengine.broker.ownership import Fence
from sqlengine.executors.state_inspection import StateView
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.system.format_numbers import check_record

FORMAT = 2  # 2: the tags of entries are the present names
# Of what instances have told, only the latest counts.
_REPORTS_BYTES = 8 << 20


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """The change to `version` of the graph: the job versions that come (0: the job goes), jobs that
    take up the state of another name (new to old), and where what the one job has is written down
    that comes from another graph. Its number is its offset."""

    version: int
    jobs: dict[str, int]
    renamed: dict[str, str] = {}
    handover: str = ""
    format: int = FORMAT


class Switch(msgspec.Struct, frozen=True, tag=True):
    """The same change, to be made: the sources that come with it begin at `starts` (offsets by
    source and shard). `moved`: the job that goes has gone to another graph, with what its sinks
    have no space for."""

    version: int
    jobs: dict[str, int]
    renamed: dict[str, str] = {}
    starts: dict[str, dict[str, int]] = {}
    handover: str = ""
    moved: bool = False
    format: int = FORMAT


class Abandon(msgspec.Struct, frozen=True, tag=True):
    """The change that was prepared last does not come."""

    version: int
    format: int = FORMAT


class Pause(msgspec.Struct, frozen=True, tag=True):
    """All parts read their sources up to `bounds` (offsets by source and shard) and no further, or
    not at all, until `Resume`: nothing is on its way between them then."""

    bounds: dict[str, dict[str, int]] = {}
    format: int = FORMAT


class CollectState(msgspec.Struct, frozen=True, tag=True):
    """All parts, which are held, write down what they have of a job."""

    job: str
    format: int = FORMAT


class InspectState(msgspec.Struct, frozen=True, tag=True):
    """All parts tell what the operations of a job keep, with at most `limit` rows of that of the
    number (0: of none)."""

    job: str
    operation: int
    limit: int
    format: int = FORMAT


class Resume(msgspec.Struct, frozen=True, tag=True):
    """What was held goes on."""

    format: int = FORMAT


Held: TypeAlias = Pause | CollectState | Resume
Control: TypeAlias = Prepare | Switch | Abandon | Held | InspectState


class Problem(msgspec.Struct, frozen=True):
    """An error of an instance, in the words that people see. `passes`: it may be otherwise in a
    moment."""

    message: str
    detail: str | None = None
    hint: str | None = None
    passes: bool = False


class Answer(msgspec.Struct, frozen=True, tag=True):
    """An instance has prepared the change of that number, or cannot."""

    instance: str
    number: int
    problem: Problem | None = None


class Done(msgspec.Struct, frozen=True, tag=True):
    """A part has done what the entry of that number asks of it: it stands, having read what others
    send up to `at` and its sources up to `positions`; or what it has of the job is written down as
    `piece`, or is `seen`. `problem`: why it cannot."""

    instance: str
    number: int
    part: int
    at: int = 0
    positions: dict[str, dict[str, int]] = {}
    piece: str = ""
    seen: StateView | None = None
    problem: Problem | None = None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Jobs are at fault in an instance. It is told again and again until they are gone."""

    instance: str
    jobs: list[str]
    reason: str


@dataclass(frozen=True)
class SubtaskReport:
    """A part as its instance sees it: the version of its graph, its last epoch, and how far it has
    read each shard of each topic (the least of several readers); `waits_for`: parts with so many
    bytes of this one to read that it reads no more; `stored`: the version of the graph in its last
    checkpoint."""

    version: int
    epoch: int
    positions: dict[str, dict[str, int]] = field(default_factory=dict)
    waits_for: dict[int, int] = field(default_factory=dict)
    stored: int = 0


class InstanceReport(msgspec.Struct, frozen=True, tag=True):
    """What an instance has done since it started. `sinks`: rows by the id of the sink; `letters`:
    dead letters by job; `troubles`: jobs that should leave its parts."""

    instance: str
    pid: int
    since_ms: int
    now_ms: int
    parts: dict[int, SubtaskReport]
    jobs: dict[str, int] = {}
    sinks: dict[str, int] = {}
    rows_in: int = 0
    epochs: int = 0
    dead_letters: int = 0
    memory: int = 0
    cpu_s: float = 0.0
    problem: str | None = None
    letters: dict[str, int] = {}
    troubles: list[IsolationTrigger] = []


Told: TypeAlias = Answer | Done | Failed | InstanceReport

_CONTROL: msgspec.json.Decoder[Control] = msgspec.json.Decoder(Control)
_TOLD: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)


class ControlLog:
    """The control topic of one divided graph. It is compacted: of what passes the last entry of its
    kind is kept, and each switch until it is forgotten."""

    def __init__(self, broker: Broker, graph: str) -> None:
        self.topic = system_topic("control", graph)
        broker.create_topic(self.topic, compacted=True, if_not_exists=True)
        self._broker = broker

    def append(self, entry: Control, now_ms: int) -> int:
        """The entry's offset."""
        done = self._broker.append(
            self.topic, 0, [msgspec.json.encode(entry)], keys=[_key(entry)], timestamp_ms=now_ms
        )
        return done.first_offset

    def forget(self, versions: Iterable[int], now_ms: int) -> None:
        """All parts have these switches in their checkpoints. The last switch must stay."""
        keys = [_switch_key(version) for version in versions]
        self._broker.append(self.topic, 0, [None] * len(keys), keys=keys, timestamp_ms=now_ms)

    def read(self, offset: int = 0) -> Iterator[tuple[int, Control]]:
        """Entries from `offset` on, each with its own."""
        while (records := self._broker.read(self.topic, 0, offset)) is not None:
            for value, at in zip(records.values.to_pylist(), records.offsets.tolist(), strict=True):
                if value is not None:
                    yield at, _read(value)
            offset = records.next_offset

    def switches(self, after: int, until: int) -> Iterator[Switch]:
        """The switches to versions from `after` + 1 to `until`, in order. ServiceError where one is
        missing."""
        version = after
        for _, entry in self.read():
            if isinstance(entry, Switch) and version < entry.version <= until:
                if entry.version != version + 1:
                    raise ServiceError(
                        f"topic {self.topic} has a gap: version {version} is followed by"
                        f" {entry.version}",
                        hint="it was shortened by hand",
                    )
                version = entry.version
                yield entry


def _key(entry: Control) -> bytes:
    match entry:
        case Switch():
            return _switch_key(entry.version)
        case Prepare() | Abandon():
            return b"change"
        case InspectState():
            return b"look"
        case _:
            return b"held"


def _switch_key(version: int) -> bytes:
    return f"switch {version}".encode()


class Reports:
    """What instances tell, in a topic of its own."""

    def __init__(self, broker: Broker, graph: str) -> None:
        self.topic = system_topic("instances", graph)
        broker.create_topic(self.topic, retention_bytes=_REPORTS_BYTES, if_not_exists=True)
        self._broker = broker
        self._offset = broker.end_offset(self.topic, 0)

    def tell(self, told: Told, now_ms: int, fence: Fence | None = None) -> None:
        self._broker.append(
            self.topic, 0, [msgspec.json.encode(told)], timestamp_ms=now_ms, fence=fence
        )

    def read(self) -> list[Told]:
        """What was told since this was made, and not read yet."""
        records = self._broker.read(self.topic, 0, self._offset)
        if records is None:
            return []
        self._offset = records.next_offset
        return [_TOLD.decode(value) for value in records.values.to_pylist()]


def _read(value: bytes) -> Control:
    check_record(value, FORMAT, "an entry of the control topic")
    return _CONTROL.decode(value)
