"""The job log: all jobs, their versions and the change in progress, in a compacted topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from parser.errors import JobError
from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerFull
from sqlengine.jobs.job import FORMAT, Cause, Job, JobState, JobVersion, Origin, Removal
from sqlengine.system.format_numbers import check_record

JOBS = "_jobs"
log = logging.getLogger("sqlengine")
_PENDING = b"change"
_VERSION = b"version:"
_REMOVED = b"removed:"


@dataclass(frozen=True)
class PendingChange:
    """A change of graphs that is not complete yet.

    It stands in the log until all its graphs have switched, so that a restart can roll it forward.
    `jobs`: the new version of each; `graphs`: the graph of each; `removes`: the jobs that leave
    their graphs, by the wish of the principal `by` over `origin`; `renamed`: new name -> old, whose
    state the job takes over; `savepoints`: the paths that jobs start from. With a `handover` (its
    key in the migration store) the jobs migrate to another graph, for a `cause` and a reason.
    `targets`: where jobs are told to run, where they are told anything. With
    `drains` the job ends, and stops with a savepoint, below `folder` if there is one. `dormant`:
    jobs that do not run, and use what the change defines. `fates`: what becomes of shadows that end
    with it, by the names of their jobs.
    """

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
    origin: Origin | None = None
    by: str = ""
    dormant: tuple[str, ...] = ()
    targets: dict[str, str] = field(default_factory=dict)
    fates: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True)
class JobChange:
    """A change of a job's version or state. `before` is None for a new one, `after` for one that
    was removed, `renamed` the name that it had; `text`, `old_text`: its versions; `by`: the
    principal that has asked for it, '' where the log does not know."""

    name: str
    before: Job | None
    after: Job | None
    text: JobVersion | None = None
    old_text: JobVersion | None = None
    renamed: str = ""
    by: str = ""

    @property
    def action(self) -> str:
        """The change in one word: added, replaced, stopped …"""
        if self.after is None or self.before is None:
            return "removed" if self.after is None else "added"
        if self.renamed:
            return "renamed"
        if self.before.version != self.after.version:
            return "replanned" if self.text is not None and self.text.follows else "replaced"
        state = self.after.state
        return "started" if state is JobState.RUNNING else state.value


class JobLog:
    """All jobs and all their versions, in a compacted topic. `removals`: of jobs that were removed
    and have not come back; `told` hears of changes that have been logged.

    Writes are durable when they return, as the broker's fsync mode says; with `sync` they are on
    disk, and everything written before them too.
    """

    def __init__(self, broker: Broker, *, sync: bool = False) -> None:
        broker.create_topic(JOBS, compacted=True, if_not_exists=True)
        with suppress(BrokerFull):  # the next start tries again
            broker.compact(JOBS)
        self._broker = broker
        self._sync = sync
        self.told: Callable[[Sequence[JobChange]], None] = lambda changes: None
        self.versions: dict[str, dict[int, JobVersion]] = {}
        self.jobs: dict[str, Job] = {}
        self.removals: dict[str, Removal] = {}
        self.pending: PendingChange | None = None
        self._read_to = broker.begin_offset(JOBS, 0)
        for key, value in broker.read_latest(JOBS).items():
            self._read(key, value)

    def refresh(self) -> None:
        """Reads the versions that another process has written since the last read."""
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
        elif key.startswith(_REMOVED):
            removal = msgspec.json.decode(value, type=Removal)
            self.removals[removal.name] = removal
        else:
            job = msgspec.json.decode(value, type=Job)
            self.jobs[job.name] = job

    def begin(self, change: PendingChange, versions: Collection[JobVersion], now_ms: int) -> None:
        """Logs a change and its new versions, before it takes effect."""
        self._append({**_version_records(versions), _PENDING: msgspec.json.encode(change)}, now_ms)
        self._keep(versions)
        self.pending = change

    def complete(self, jobs: Mapping[str, Job], removes: Collection[str], now_ms: int) -> None:
        """Logs that the pending change has taken effect, with its jobs as they are now.

        The versions of removed jobs stay, so that a new job of the name continues their numbers and
        the history shows all.
        """
        gone: dict[bytes, bytes | None] = dict.fromkeys(map(_job_key, removes))
        removals = self._removals(removes, now_ms)
        back = self.removals.keys() & jobs.keys()
        changes = [*self._changes(jobs), *self._ends(removes)]
        gone |= {_REMOVED + n.encode(): msgspec.json.encode(r) for n, r in removals.items()}
        gone |= dict.fromkeys(_REMOVED + n.encode() for n in back)
        ended = self._ended_shadows(now_ms)
        self._append({_PENDING: None, **gone, **_version_records(ended), **_records(jobs)}, now_ms)
        self._keep(ended)
        self.pending = None
        for name in removes:
            self.jobs.pop(name, None)
        for name in back:
            del self.removals[name]
        self.removals |= removals
        self.jobs.update(jobs)
        self._tell(changes)

    def _changes(
        self, jobs: Mapping[str, Job], renamed: Mapping[str, str] | None = None
    ) -> list[JobChange]:
        """Returns what is new of jobs, before it is kept. `renamed`: new name -> old, else that of
        the pending change."""
        if renamed is None:
            renamed = {} if self.pending is None else self.pending.renamed
        found = []
        for name, job in jobs.items():
            old = renamed.get(name, "")
            before = self.jobs.get(old or name)
            if before is not None and not old and _same(before, job):
                continue
            text = self._text(job)
            new_version = before is None or before.version != job.version
            by = text.by if text is not None and new_version else ""
            was = None if before is None else self._text(before)
            found.append(JobChange(name, before, job, text, was, old, by))
        return found

    def _ends(self, removes: Collection[str]) -> list[JobChange]:
        change = self.pending or PendingChange()
        ended = [n for n in removes if n in self.jobs and n not in change.renamed.values()]
        return [JobChange(name, self.jobs[name], None, by=change.by) for name in ended]

    def _text(self, job: Job) -> JobVersion | None:
        return self.versions.get(job.name, {}).get(job.version)

    def _tell(self, changes: Sequence[JobChange]) -> None:
        if changes:
            try:
                self.told(changes)
            except Exception:  # the change is made, whatever comes of telling it
                log.exception("changes of jobs could not be told")

    def _removals(self, names: Collection[str], now_ms: int) -> dict[str, Removal]:
        """Returns the removals of the pending change: of `names` those that are not renamed."""
        change = self.pending
        if change is None or change.origin is None:
            return {}
        kept = {*change.renamed.values(), *filter(is_shadow, names)}
        ended = [n for n in names if n in self.jobs and n not in kept]
        return {
            n: Removal(n, self.jobs[n].version, change.origin, now_ms, change.by) for n in ended
        }

    def _ended_shadows(self, now_ms: int) -> list[JobVersion]:
        """Returns the versions of shadows that end with the pending change, with their fates."""
        fates = {} if self.pending is None else self.pending.fates
        ended = {n: self.version(n, self.jobs[n].version) for n in fates if n in self.jobs}
        return [replace(v, fate=fates[n], fate_ms=now_ms) for n, v in ended.items()]

    def drop_pending(self, now_ms: int) -> None:
        """Logs that the pending change has had no effect, and will have none."""
        self.pending = None
        self._append({_PENDING: None}, now_ms)

    def add_waiting(self, version: JobVersion, job: Job, now_ms: int) -> None:
        """Logs a version that cannot run yet, and its job."""
        self._append({**_version_records([version]), **_records({job.name: job})}, now_ms)
        self._keep([version])
        changes = self._changes({job.name: job})
        self.jobs[job.name] = job
        self._tell(changes)

    def rename(
        self, versions: Collection[JobVersion], jobs: Mapping[str, Job], now_ms: int
    ) -> None:
        """Logs new names of jobs that no graph runs (old name -> job), with versions for these, as
        one atomic batch."""
        gone: dict[bytes, bytes | None] = {_job_key(old): None for old in jobs}
        self._append(
            {**_version_records(versions), **gone, **_records({j.name: j for j in jobs.values()})},
            now_ms,
        )
        self._keep(versions)
        names = {job.name: old for old, job in jobs.items()}
        changes = self._changes({job.name: job for job in jobs.values()}, names)
        for old, job in jobs.items():
            del self.jobs[old]
            self.jobs[job.name] = job
        self._tell(changes)

    def renamed(self, job: Job, new: str, file: str | None) -> tuple[JobVersion, list[JobVersion]]:
        """Returns the current version of a job under a new name, and its other versions.

        Versions that the new name has had already (it may come back) are left out, and the others
        numbered behind them. The old name keeps its versions: other jobs may need them.
        """
        existing = self.versions.get(new, {})
        known = {(v.created_ms, v.sql) for v in existing.values()}
        own = sorted(self.versions[job.name].items())
        kept = {n: v for n, v in own if n == job.version or (v.created_ms, v.sql) not in known}
        first = max(existing, default=0) + 1
        numbers = range(first, first + len(kept)) if existing else kept
        versions = {
            n: replace(v, name=new, version=number)
            for number, (n, v) in zip(numbers, kept.items(), strict=True)
        }
        return replace(versions.pop(job.version), file=file), list(versions.values())

    def _keep(self, versions: Collection[JobVersion]) -> None:
        for version in versions:
            self.versions.setdefault(version.name, {})[version.version] = version

    def write(self, jobs: Mapping[str, Job], now_ms: int) -> None:
        """Logs new states of jobs, as one atomic batch."""
        if jobs:
            self._append(_records(jobs), now_ms)
            changes = self._changes(jobs)
            self.jobs.update(jobs)
            self._tell(changes)

    def _append(self, records: Mapping[bytes, bytes | None], now_ms: int) -> None:
        if self._sync:
            self._broker.sync()
        self._broker.append(
            JOBS, 0, list(records.values()), keys=list(records), timestamp_ms=now_ms
        )
        if self._sync:
            self._broker.sync()

    def texts(self) -> Iterator[str]:
        """Yields the texts of all versions."""
        return (
            v.sql for versions in self.versions.copy().values() for v in list(versions.values())
        )

    def next_version(self, name: str) -> int:
        """Returns the number of a job's next version; a shadow has one of its rule's."""
        return max(self.versions_of(name), default=0) + 1

    def versions_of(self, name: str) -> dict[int, JobVersion]:
        """Returns the versions of a job by number: of the rule, for a shadow."""
        return self.versions.get(rule_of(name), {})

    def version(self, name: str, version: int) -> JobVersion:
        """Returns a version of a job: of the rule, for a shadow. Raises JobError, which names those
        there are."""
        versions = self.versions_of(name)
        if version not in versions:
            known = ", ".join(map(str, sorted(versions))) or "none"
            raise JobError(f"job '{name}' has no version {version}", detail=f"versions: {known}")
        return versions[version]


def _version_records(versions: Collection[JobVersion]) -> dict[bytes, bytes | None]:
    return {_VERSION + f"{v.name}@{v.version}".encode(): msgspec.json.encode(v) for v in versions}


def _same(before: Job, after: Job) -> bool:
    return (before.version, before.state) == (after.version, after.state)


def _job_key(name: str) -> bytes:
    return f"job:{name}".encode()


def _records(jobs: Mapping[str, Job]) -> dict[bytes, bytes | None]:
    return {_job_key(name): msgspec.json.encode(job) for name, job in jobs.items()}
