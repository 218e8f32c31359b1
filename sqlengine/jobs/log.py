"""The job log: all jobs, their versions and the change in progress, in a compacted topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from parser.errors import JobError
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerFull
from sqlengine.jobs.job import FORMAT, Cause, Job, JobVersion
from sqlengine.system.format_numbers import check_record

JOBS = "_jobs"
_PENDING = b"change"
_VERSION = b"version:"


@dataclass(frozen=True)
class PendingChange:
    """A change on its way into one graph or several: the versions of jobs, the graph of each, jobs
    that go, and jobs that take up the state of another name (new name to old), and the savepoints
    that jobs start from. It stands in the log until all graphs have taken it, so that after a crash
    those that have not do. `handover`: the job goes from one graph to another with all that it has,
    for a `cause` and a reason in words. `drains`: the job ends where it is, and stops with a
    savepoint, below a `folder` if there is one."""

    jobs: dict[str, int] = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)
    removes: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)
    savepoints: dict[str, str] = field(default_factory=dict)
    handover: str = ""
    cause: Cause = Cause.NONE
    reason: str | None = None
    drains: bool = False
    folder: str | None = None
    format: int = FORMAT


class JobLog:
    """All versions of all jobs, and the state of each, in a compacted topic. Writes are durable
    when they return, in the sense of the broker's fsync mode; with `sync` on disk, and before them
    what they tell of."""

    def __init__(self, broker: Broker, *, sync: bool = False) -> None:
        broker.create_topic(JOBS, compacted=True, if_not_exists=True)
        with suppress(BrokerFull):  # the next start tries again
            broker.compact(JOBS)
        self._broker = broker
        self._sync = sync
        self.versions: dict[str, dict[int, JobVersion]] = {}
        self.jobs: dict[str, Job] = {}
        self.pending: PendingChange | None = None
        self._read_to = broker.begin_offset(JOBS, 0)
        for key, value in broker.read_latest(JOBS).items():
            self._read(key, value)

    def refresh(self) -> None:
        """Makes known the versions that another process has written since."""
        while (records := self._broker.read(JOBS, 0, self._read_to)) is not None:
            assert records.keys is not None or not records.num_rows
            keys = records.keys.to_pylist() if records.keys is not None else []
            for key, value in zip(keys, records.values.to_pylist(), strict=True):
                if value is not None and key.startswith(_VERSION):
                    self._read(key, value)
            self._read_to = records.next_offset

    def _read(self, key: bytes, value: bytes) -> None:
        check_record(value, FORMAT, f"record '{key.decode()}' of the job log")
        if key == _PENDING:
            self.pending = msgspec.json.decode(value, type=PendingChange)
        elif key.startswith(_VERSION):
            version = msgspec.json.decode(value, type=JobVersion)
            self.versions.setdefault(version.name, {})[version.version] = version
        else:
            job = msgspec.json.decode(value, type=Job)
            self.jobs[job.name] = job

    def begin(self, change: PendingChange, versions: Collection[JobVersion], now_ms: int) -> None:
        """New versions, and the change that brings them, before it takes effect."""
        self._append({**_version_records(versions), _PENDING: msgspec.json.encode(change)}, now_ms)
        self._keep(versions)
        self.pending = change

    def complete(self, jobs: Mapping[str, Job], removes: Collection[str], now_ms: int) -> None:
        """The pending change has taken effect: jobs as they are now, and jobs that are gone. The
        versions of these stay, so that a new job of the name goes on counting and history shows
        all."""
        gone: dict[bytes, bytes | None] = dict.fromkeys(map(_job_key, removes))
        self._append({_PENDING: None, **gone, **_records(jobs)}, now_ms)
        self.pending = None
        for name in removes:
            self.jobs.pop(name, None)
        self.jobs.update(jobs)

    def drop_pending(self, now_ms: int) -> None:
        """The pending change has taken no effect, and will not."""
        self.pending = None
        self._append({_PENDING: None}, now_ms)

    def add_waiting(self, version: JobVersion, job: Job, now_ms: int) -> None:
        """A version that cannot run yet, and its job."""
        self._append({**_version_records([version]), **_records({job.name: job})}, now_ms)
        self._keep([version])
        self.jobs[job.name] = job

    def rename(
        self, versions: Collection[JobVersion], jobs: Mapping[str, Job], now_ms: int
    ) -> None:
        """Jobs that no graph runs under new names (old name -> job), with versions for these, as
        one atomic batch."""
        gone: dict[bytes, bytes | None] = {_job_key(old): None for old in jobs}
        self._append(
            {**_version_records(versions), **gone, **_records({j.name: j for j in jobs.values()})},
            now_ms,
        )
        self._keep(versions)
        for old, job in jobs.items():
            del self.jobs[old]
            self.jobs[job.name] = job

    def renamed(self, job: Job, new: str, file: str | None) -> tuple[JobVersion, list[JobVersion]]:
        """A job's version under a new name, where it comes from `file`, and its other versions but
        those that the name has had: a name that comes back must not double what there is. They are
        numbered behind those. The old name keeps its own: versions of other jobs may need them."""
        there = self.versions.get(new, {})
        known = {(v.created_ms, v.sql) for v in there.values()}
        mine = sorted(self.versions[job.name].items())
        kept = {n: v for n, v in mine if n == job.version or (v.created_ms, v.sql) not in known}
        numbers = range(max(there) + 1, max(there) + 1 + len(kept)) if there else kept
        held = {
            n: replace(v, name=new, version=number)
            for number, (n, v) in zip(numbers, kept.items(), strict=True)
        }
        return replace(held.pop(job.version), file=file), list(held.values())

    def _keep(self, versions: Collection[JobVersion]) -> None:
        for version in versions:
            self.versions.setdefault(version.name, {})[version.version] = version

    def write(self, jobs: Mapping[str, Job], now_ms: int) -> None:
        """New states of jobs, as one atomic batch."""
        if jobs:
            self._append(_records(jobs), now_ms)
            self.jobs.update(jobs)

    def _append(self, records: Mapping[bytes, bytes | None], now_ms: int) -> None:
        if self._sync:
            self._broker.sync()
        self._broker.append(
            JOBS, 0, list(records.values()), keys=list(records), timestamp_ms=now_ms
        )
        if self._sync:
            self._broker.sync()

    def next_version(self, name: str) -> int:
        return max(self.versions.get(name, {0: None})) + 1

    def version(self, name: str, version: int) -> JobVersion:
        """One version; JobError names those there are."""
        held = self.versions.get(name, {})
        if version not in held:
            known = ", ".join(map(str, sorted(held))) or "none"
            raise JobError(f"job '{name}' has no version {version}", detail=f"versions: {known}")
        return held[version]


def _version_records(versions: Collection[JobVersion]) -> dict[bytes, bytes | None]:
    return {_VERSION + f"{v.name}@{v.version}".encode(): msgspec.json.encode(v) for v in versions}


def _job_key(name: str) -> bytes:
    return f"job:{name}".encode()


def _records(jobs: Mapping[str, Job]) -> dict[bytes, bytes | None]:
    return {_job_key(name): msgspec.json.encode(job) for name, job in jobs.items()}
