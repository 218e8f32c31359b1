"""The messages between the leader of a distributed graph and its instances, and their topics.

The control topic is a log that all instances read in order: a change is prepared by all of them,
and then they all switch to it or it is abandoned. A subtask that is opened later replays the
switches that it missed; the version of its graph says which. Acknowledgements and reports of
instances go to a topic of their own.

The names of entries and fields on the wire are older than those in code: `tag=` and `name=` keep
them, so that a server reads what an earlier one wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import field

from parser.errors import ServiceError
from sqlengine.broker.base import Broker, system_topic
from sqlengine.broker.ownership import Fence
from sqlengine.executors.job_counts import JobCounts
from sqlengine.executors.state_inspection import StateView
from sqlengine.graphs.event_times import EventTimes
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.system.format_numbers import check_record

FORMAT = 1
# Retention of the topic of reports: only the latest of each instance counts.
_REPORTS_BYTES = 8 << 20


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Requests that all instances prepare the change to `version` of the graph.

    `jobs`: the job versions to run (0 removes the job); `renamed`: jobs that take over the state
    of another name (new to old); `migration`: the stored snapshot of jobs that come from another
    graph, "" if none. The offset of the entry is its number."""

    version: int
    jobs: dict[str, int]
    renamed: dict[str, str] = {}
    migration: str = field(default="", name="handover")
    format: int = FORMAT


class Switch(msgspec.Struct, frozen=True, tag=True):
    """Commits a prepared change: subtasks apply it between two epochs.

    New sources begin at `starts` (offsets by source and shard). `moved`: the job that is removed
    goes to another graph, and takes its pending commits along."""

    version: int
    jobs: dict[str, int]
    renamed: dict[str, str] = {}
    starts: dict[str, dict[str, int]] = {}
    migration: str = field(default="", name="handover")
    moved: bool = False
    format: int = FORMAT


class Abandon(msgspec.Struct, frozen=True, tag="GiveUp"):
    """Cancels the change that was prepared last."""

    version: int
    format: int = FORMAT


class Pause(msgspec.Struct, frozen=True, tag="Hold"):
    """Pauses all subtasks until `Resume`, so that the shuffle between them drains.

    They read their sources up to `bounds` (offsets by source and shard), or not at all."""

    bounds: dict[str, dict[str, int]] = {}
    format: int = FORMAT


class CollectState(msgspec.Struct, frozen=True, tag="Fetch"):
    """Requests that all subtasks, which are paused, store their snapshot of a job."""

    job: str
    format: int = FORMAT


class InspectState(msgspec.Struct, frozen=True, tag="Look"):
    """Requests the state of a job's operations, with at most `limit` rows of operation number
    `operation` (0: rows of none)."""

    job: str
    operation: int
    limit: int
    format: int = FORMAT


class Resume(msgspec.Struct, frozen=True, tag="Go"):
    """Resumes all paused subtasks."""

    format: int = FORMAT


class EndSteps(msgspec.Struct, frozen=True, tag=True):
    """Ends long steps of version `job_version` of a job, which leaves or has failed, for `reason`.

    Recoveries leave it out. Counts up to `version` of the graph: what is attached later is another
    run of it."""

    job: str
    job_version: int
    version: int
    reason: str
    format: int = FORMAT


PauseEntry: TypeAlias = Pause | CollectState | Resume
ControlEntry: TypeAlias = Prepare | Switch | Abandon | PauseEntry | InspectState | EndSteps


class Problem(msgspec.Struct, frozen=True):
    """An error of an instance, as people see it. `transient`: a retry may succeed soon."""

    message: str
    detail: str | None = None
    hint: str | None = None
    transient: bool = field(default=False, name="passes")


class Answer(msgspec.Struct, frozen=True, tag=True):
    """Acknowledges `Prepare` entry `number`: the instance has prepared the change, or cannot."""

    instance: str
    number: int
    problem: Problem | None = None


class Done(msgspec.Struct, frozen=True, tag=True):
    """Reports that a subtask has done what control entry `number` requests, or why it cannot.

    Paused: it has read the shuffle up to `shuffle_offset` and its sources up to `positions`.
    State collected: `snapshot` is the name under which the snapshot is stored. State inspected:
    `state`."""

    instance: str
    number: int
    subtask: int = field(name="part")
    shuffle_offset: int = field(default=0, name="at")
    positions: dict[str, dict[str, int]] = {}
    snapshot: str = field(default="", name="piece")
    state: StateView | None = field(default=None, name="seen")
    problem: Problem | None = None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Reports jobs that fail in an instance. It is repeated until they are gone. `ended`: in the
    middle of a step, which was ended for them."""

    instance: str
    jobs: list[str]
    reason: str
    lasting: bool = False
    ended: bool = False


class LongStep(msgspec.Struct, frozen=True):
    """A long step of one subtask. `number`: that of its guard; `rows`: put out so far."""

    part: int
    number: int
    seconds: float
    activity: str
    jobs: list[str]
    rows: int


class LongSteps(msgspec.Struct, frozen=True, tag=True):
    """Reports the long steps that an instance is in, while it is in one, and once none is left."""

    instance: str
    pid: int
    steps: list[LongStep]


class SubtaskReport(msgspec.Struct, frozen=True):
    """Progress of one subtask, as its instance reports it.

    `version`: of its graph; `epoch`: the last one; `positions`: the next offset by topic and shard
    (the least of several readers); `backpressured_by`: subtasks with so many unread bytes from
    this one that it reads no sources; `stored_version`: of the graph in its last checkpoint;
    `counts`: what each job has done in it; `times`: watermarks, and what waits for them."""

    version: int
    epoch: int
    positions: dict[str, dict[str, int]] = {}
    backpressured_by: dict[int, int] = field(default_factory=dict, name="waits_for")
    stored_version: int = field(default=0, name="stored")
    counts: dict[str, JobCounts] = {}
    times: EventTimes = EventTimes()


class InstanceReport(msgspec.Struct, frozen=True, tag="Report"):
    """Totals of an instance since it started, and the progress of its subtasks.

    `sinks`: rows by the id of the sink; `letters`: dead letters by job;
    `memory`: resident bytes; `triggers`: jobs that should leave its graph."""

    instance: str
    pid: int
    since_ms: int
    now_ms: int
    subtasks: dict[int, SubtaskReport] = field(name="parts")
    sinks: dict[str, int] = {}
    rows_in: int = 0
    epochs: int = 0
    dead_letters: int = 0
    memory: int = 0
    cpu_s: float = 0.0
    problem: str | None = None
    letters: dict[str, int] = {}
    triggers: list[IsolationTrigger] = field(default_factory=list, name="troubles")


Report: TypeAlias = Answer | Done | Failed | InstanceReport | LongSteps

_CONTROL: msgspec.json.Decoder[ControlEntry] = msgspec.json.Decoder(ControlEntry)
_REPORT: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class ControlLog:
    """The control topic of one distributed graph.

    It is compacted: it keeps each switch until that is forgotten, and the last entry of every
    other kind."""

    def __init__(self, broker: Broker, graph: str) -> None:
        self.topic = system_topic("control", graph)
        broker.create_topic(self.topic, compacted=True, if_not_exists=True)
        self._broker = broker

    def append(self, entry: ControlEntry, now_ms: int) -> int:
        """Appends an entry and returns its offset."""
        done = self._broker.append(
            self.topic, 0, [msgspec.json.encode(entry)], keys=[_key(entry)], timestamp_ms=now_ms
        )
        return done.first_offset

    def forget(self, versions: Iterable[int], now_ms: int) -> None:
        """Deletes switches that are in the checkpoints of all subtasks. The last one must stay."""
        keys = [_switch_key(version) for version in versions]
        self._broker.append(self.topic, 0, [None] * len(keys), keys=keys, timestamp_ms=now_ms)

    def forget_ends(self, jobs: Iterable[str], now_ms: int) -> None:
        """Deletes requests to end steps that no recovery needs any more."""
        keys = [_end_key(job) for job in jobs]
        self._broker.append(self.topic, 0, [None] * len(keys), keys=keys, timestamp_ms=now_ms)

    def read(self, offset: int = 0) -> Iterator[tuple[int, ControlEntry]]:
        """Yields the entries from `offset` on, each with its offset."""
        while (records := self._broker.read(self.topic, 0, offset)) is not None:
            for value, at in zip(records.values.to_pylist(), records.offsets.tolist(), strict=True):
                if value is not None:
                    yield at, _decode(value)
            offset = records.next_offset

    def switches(self, after: int, until: int) -> Iterator[Switch]:
        """Yields the switches to versions from `after` + 1 to `until`, in order. ServiceError if
        one is missing."""
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

    def removed(self) -> dict[str, int]:
        """Returns the jobs that have left the graph for good so far, each with the last version of
        the graph that it was in."""
        gone: dict[str, int] = {}
        for _, entry in self.read():
            if isinstance(entry, Switch):
                gone |= {name: entry.version - 1 for name, v in entry.jobs.items() if not v}
                for name in (n for n, version in entry.jobs.items() if version):
                    gone.pop(name, None)
        return gone


def _key(entry: ControlEntry) -> bytes:
    """Returns the key of an entry in the compacted topic: the last entry of each key is kept."""
    match entry:
        case Switch():
            return _switch_key(entry.version)
        # One key for both: an abandoned preparation is compacted away by its cancellation.
        case Prepare() | Abandon():
            return b"change"
        case InspectState():
            return b"look"
        case EndSteps():
            return _end_key(entry.job)
        case _:
            return b"held"


def _switch_key(version: int) -> bytes:
    return f"switch {version}".encode()


def _end_key(job: str) -> bytes:
    return f"end {job}".encode()


def _decode(value: bytes) -> ControlEntry:
    check_record(value, FORMAT, "an entry of the control topic")
    return _CONTROL.decode(value)


class ReportTopic:
    """The topic of reports from instances to the leader."""

    def __init__(self, broker: Broker, graph: str) -> None:
        self.topic = system_topic("instances", graph)
        broker.create_topic(self.topic, retention_bytes=_REPORTS_BYTES, if_not_exists=True)
        self._broker = broker
        # Reports of former processes are skipped: they describe instances that are gone.
        self._offset = broker.end_offset(self.topic, 0)

    def publish(self, report: Report, now_ms: int, fence: Fence | None = None) -> None:
        """Appends a report. With a `fence` it is refused (Fenced) if the fence is stale."""
        self._broker.append(
            self.topic, 0, [msgspec.json.encode(report)], timestamp_ms=now_ms, fence=fence
        )

    def read(self) -> list[Report]:
        """Returns the reports published since this object was created, each once."""
        records = self._broker.read(self.topic, 0, self._offset)
        if records is None:
            return []
        self._offset = records.next_offset
        return [_REPORT.decode(value) for value in records.values.to_pylist()]
