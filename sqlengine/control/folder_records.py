"""The texts that the watched folder has submitted, in a compacted topic.

A file counts when it differs from the text that was last taken from it, and not when it differs
from what runs: another way may have replaced the job since, and a restart must not undo that."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerFull
from sqlengine.jobs.job import Origin
from sqlengine.jobs.log import JobLog
from sqlengine.system.format_numbers import check_record

FILES: Final = "_folder"
FORMAT: Final = 1


@dataclass(frozen=True)
class TakenFile:
    """The file of a job as it was last submitted, or refused. `text`: hex SHA-256 of its text
    without passwords; `version`: the one that the job had then (0: there was none), and
    `next_version` the one that it would get."""

    file: str
    text: str
    version: int
    next_version: int
    format: int = FORMAT


@dataclass(frozen=True)
class OverriddenFile:
    """A file that does not count, because another way has changed its job since.

    `version`: the job's present one, or the last of a `removed` job."""

    file: str
    job: str
    by: Origin
    version: int
    removed: bool

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.file,
            "job": self.job,
            "by": self.by.value,
            "version": self.version,
            "removed": self.removed,
            "message": str(self),
        }

    def __str__(self) -> str:
        if self.removed:
            return f"removed by {self.by.value}"
        return f"overridden by {self.by.value}, version {self.version}"


class FolderRecords:
    """Files by the names of their jobs. `new`: the data folder was never watched with records.

    Changed by the folder's thread, read by all."""

    def __init__(self, broker: Broker, clock: Callable[[], int]) -> None:
        self.new = FILES not in {topic.name for topic in broker.topics()}
        broker.create_topic(FILES, compacted=True, if_not_exists=True)
        with suppress(BrokerFull):  # the next start tries again
            broker.compact(FILES)
        self._broker = broker
        self._clock = clock
        self._files: dict[str, TakenFile] = {}
        # For which the disk had no space.
        self._unwritten: dict[str, TakenFile | None] = {}
        for key, value in broker.read_latest(FILES).items():
            check_record(value, FORMAT, f"record '{key.decode()}' of the watched folder")
            self._files[key.decode()] = msgspec.json.decode(value, type=TakenFile)

    def get(self, name: str) -> TakenFile | None:
        return self._files.get(name)

    def items(self) -> list[tuple[str, TakenFile]]:
        """Returns all files by the names of their jobs, sorted."""
        return sorted(self._files.copy().items())

    def write(self, changes: Mapping[str, TakenFile | None]) -> None:
        """Keeps files that were submitted, and drops those that are gone (None). On a full disk
        they are written with the next ones."""
        changed = {n: f for n, f in changes.items() if self._files.get(n) != f}
        self._files = {n: f for n, f in {**self._files, **changed}.items() if f is not None}
        self._unwritten |= changed
        if self._unwritten:
            with suppress(BrokerFull):
                self._append(self._unwritten)
                self._unwritten = {}

    def _append(self, files: Mapping[str, TakenFile | None]) -> None:
        self._broker.append(
            FILES,
            0,
            [None if f is None else msgspec.json.encode(f) for f in files.values()],
            keys=[name.encode() for name in files],
            timestamp_ms=self._clock(),
        )


def taken_file(log: JobLog, name: str, file: str, digest: str) -> TakenFile:
    """Returns the record of a file that was submitted, or refused, just now. `digest`: of its
    text."""
    job = log.jobs.get(name)
    version = 0 if job is None else job.version
    return TakenFile(file, digest, version, log.next_version(name))


def overridden(log: JobLog, name: str, taken: TakenFile) -> OverriddenFile | None:
    """Returns the file if another way has changed its job since it was taken. Not with the text of
    the file."""
    job, removal = log.jobs.get(name), log.removals.get(name)
    if job is not None:
        late = job.origin is not Origin.FOLDER and job.version >= taken.next_version
        if not late or has_text_of(log, name, taken):
            return None
        return OverriddenFile(taken.file, name, job.origin, job.version, removed=False)
    if removal is None or removal.origin is Origin.FOLDER:
        return None
    if removal.version < (taken.version or taken.next_version):
        return None
    return OverriddenFile(taken.file, name, removal.origin, removal.version, removed=True)


def has_text_of(log: JobLog, name: str, taken: TakenFile) -> bool:
    """True if the present version of a job has the text of the file."""
    return digest_of_text(log.version(name, log.jobs[name].version).sql) == taken.text


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
