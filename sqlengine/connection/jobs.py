"""Jobs as objects: `connection.jobs` holds all, `connection.jobs["name"]` is one to act on."""

from __future__ import annotations

import datetime as dt
import difflib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from parser.errors import JobError
from sqlengine.connection.arguments import text

# Seconds between two looks at a job that is waited for.
_LOOK_S: Final = 0.05
# Looks at a running job that reads no table, after which it is taken to be done.
_LOOKS: Final = 20
RUNS: Final = ("running", "restarting", "waiting")


@dataclass(frozen=True)
class JobInfo:
    """A job as it is now.

    `state` is one of running, stopped, defined, waiting, failed; `reason` says why it waits or
    failed. `origin`: the interface that it came from. `graph`: the graph that runs it. `rows`: rows
    written, over all its versions and restarts.
    """

    name: str
    version: int
    state: str
    origin: str
    graph: str
    reason: str | None
    rows: int


@dataclass(frozen=True)
class JobResult:
    """The result of a request for a job: `status` is one of added, replaced, unchanged, waiting,
    valid, removed, stopped, started. `version` is 0 where none is left."""

    name: str
    status: str
    version: int


@dataclass(frozen=True)
class Version:
    """A version of a job. `created`: in UTC; `by`: the principal that submitted it, None where the
    server tells none apart."""

    version: int
    created: dt.datetime
    origin: str
    by: str | None
    sql: str


@dataclass(frozen=True)
class ShardPosition:
    """The place in a shard of a table to which a job has read: `offset` is the next one, `end` that
    behind the last record, None where the source cannot know it."""

    table: str
    shard: str
    offset: int
    end: int | None
    ended: bool


@dataclass(frozen=True)
class Rule:
    """A job whose text has the head of a rule. Texts that it does not have are ''; `state` and
    `rows` are those of the job."""

    name: str
    state: str
    rows: int
    title: str
    id: str
    severity: str
    status: str
    canary: str
    owner: str
    description: str
    tags: tuple[str, ...]
    references: tuple[str, ...]
    false_positives: tuple[str, ...]
    tests: tuple[str, ...]
    attributes: dict[str, str]
    suppress: str
    threshold: str
    limit: str
    maintenance: tuple[str, ...]


class Plan(str):
    """The text of a plan; notebooks keep its lines."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from sqlengine.connection.html import as_pre

        return as_pre(str(self))


class JobAccess(ABC):
    """The questions and requests about jobs that an engine takes. Methods raise the SqlError of
    what is refused."""

    @abstractmethod
    def all(self) -> list[JobInfo]:
        """Returns all jobs by name."""

    @abstractmethod
    def defines(self) -> dict[str, tuple[str, ...]]:
        """Returns the full names of the tables, views and functions that each job defines."""

    @abstractmethod
    def rules(self) -> list[Rule]:
        """Returns the jobs with the head of a rule, by name."""

    @abstractmethod
    def submit(self, name: str, sql: str) -> JobResult: ...

    @abstractmethod
    def validate(self, name: str, sql: str) -> JobResult: ...

    @abstractmethod
    def remove(self, name: str) -> JobResult: ...

    @abstractmethod
    def history(self, name: str) -> list[Version]:
        """Returns all versions, also of a job that was removed, oldest first."""

    @abstractmethod
    def rollback(self, name: str, version: int) -> JobResult: ...

    @abstractmethod
    def start(self, name: str) -> JobResult: ...

    @abstractmethod
    def stop(self, name: str) -> JobResult: ...

    @abstractmethod
    def explain(self, name: str) -> Plan: ...

    @abstractmethod
    def positions(self, name: str) -> list[ShardPosition]:
        """Returns how far a running job has read; what it made of that is written."""


class Jobs:
    """All jobs: iterate to see what each is now, `jobs["name"]` is one to act on."""

    def __init__(self, access: JobAccess) -> None:
        self._access = access

    def __iter__(self) -> Iterator[JobInfo]:
        return iter(self._access.all())

    def __len__(self) -> int:
        return len(self._access.all())

    def __contains__(self, name: object) -> bool:
        return any(job.name == name for job in self._access.all())

    def __getitem__(self, name: str) -> Job:
        """Returns a job by name. There need be none yet: `submit` makes it."""
        return Job(self._access, name)

    def defines(self) -> dict[str, tuple[str, ...]]:
        """Returns what each job defines for all: tables, views and functions by their full names,
        `default_catalog.default_database.t`."""
        return self._access.defines()

    def submit(self, name: str, sql: str) -> JobResult:
        """Adds the job, or replaces its text while it runs.

        When the text is refused, the version before runs on.
        """
        return self._access.submit(text(name, "the name of a job"), text(sql, "a job"))

    def validate(self, name: str, sql: str) -> JobResult:
        """Plans the job as `submit` does, and changes nothing."""
        return self._access.validate(text(name, "the name of a job"), text(sql, "a job"))

    def remove(self, name: str) -> JobResult:
        """Removes the job and its state; its versions stay in the history."""
        return self._access.remove(name)

    def _repr_html_(self) -> str:
        from sqlengine.connection.html import as_table

        fields = JobInfo.__match_args__
        return as_table(fields, [[getattr(job, f) for f in fields] for job in self])


class Job:
    """A job by name."""

    def __init__(self, access: JobAccess, name: str) -> None:
        self._access = access
        self.name = name

    def __repr__(self) -> str:
        return f"Job({self.name!r})"

    @property
    def info(self) -> JobInfo:
        """The job as it is now. JobError where there is none."""
        for job in self._access.all():
            if job.name == self.name:
                return job
        raise JobError(
            f"job '{self.name}' does not exist", hint="submit it: jobs.submit(name, sql)"
        )

    @property
    def state(self) -> str:
        """The state of the job now."""
        return self.info.state

    @property
    def sql(self) -> str:
        """The text of its present version, in which passwords are masked."""
        version = self.info.version
        return next(v.sql for v in self.history() if v.version == version)

    def submit(self, sql: str) -> JobResult:
        """See `Jobs.submit`."""
        return self._access.submit(self.name, text(sql, "a job"))

    def validate(self, sql: str) -> JobResult:
        """See `Jobs.validate`."""
        return self._access.validate(self.name, text(sql, "a job"))

    def remove(self) -> JobResult:
        """See `Jobs.remove`."""
        return self._access.remove(self.name)

    def stop(self) -> JobResult:
        """Stops the job; its state and its place are kept."""
        return self._access.stop(self.name)

    def start(self) -> JobResult:
        """Starts a stopped or failed job where it was."""
        return self._access.start(self.name)

    def explain(self) -> Plan:
        """Returns the plan of the job after each step."""
        return self._access.explain(self.name)

    def history(self) -> list[Version]:
        """Returns all versions, oldest first; also those of a job that was removed."""
        return self._access.history(self.name)

    def rollback(self, version: int) -> JobResult:
        """Submits an old version again, as a new one."""
        return self._access.rollback(self.name, version)

    def diff(self, other: str | int) -> str:
        """Returns what a text, or an older version by its number, has other than the present one:
        a unified diff from the older to the newer, '' for equal texts."""
        present, version = self.sql, self.info.version
        if isinstance(other, str):
            old, new, names = present, other, (f"version {version}", "new text")
        else:
            old = next((v.sql for v in self.history() if v.version == other), "")
            if not old:
                raise JobError(
                    f"job '{self.name}' has no version {other}", hint="history() lists all"
                )
            new, names = present, (f"version {other}", f"version {version}")
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
        return "\n".join(lines)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the job has read all that there is when it is called, and has written what
        comes of it; False where that takes longer. JobError where the job does not run, or reads a
        source that cannot say where it ends."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        wanted: dict[tuple[str, str], int] | None = None
        looks = 0
        while True:
            found = self._access.positions(self.name)
            if found:
                wanted = self._ends(found) if wanted is None else wanted
                if _read_to(found, wanted):
                    return True
            else:
                job = self._running()
                looks = looks + 1 if job.state == "running" else 0
                # It reads nothing, as VALUES do; one whose epoch has failed does not run now.
                if wanted is None and (looks > _LOOKS or (looks > 1 and job.rows)):
                    return True
            if until is not None and time.monotonic() > until:
                return False
            time.sleep(_LOOK_S)

    def _ends(self, found: list[ShardPosition]) -> dict[tuple[str, str], int]:
        endless = next((p.table for p in found if p.end is None and not p.ended), None)
        if endless is not None:
            raise JobError(
                f"table '{endless}' of job '{self.name}' cannot say how much is left to read",
                hint="wait for what it writes: connection.sql(…, follow=True)",
            )
        return {(p.table, p.shard): p.end or 0 for p in found if not p.ended}

    def _running(self) -> JobInfo:
        job = self.info
        if job.state not in RUNS:
            raise JobError(f"job '{self.name}' is {job.state}", detail=job.reason)
        return job


def _read_to(found: list[ShardPosition], wanted: dict[tuple[str, str], int]) -> bool:
    """True if no shard is before the offset that is wanted of it; one that is gone was read."""
    return all(p.ended or p.offset >= wanted.get((p.table, p.shard), 0) for p in found)
