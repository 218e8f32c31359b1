"""The trail of jobs: each change of one is a line of the audit log, with who asked for it and the
difference of the texts."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from sqlengine.access.actor import present_actor
from sqlengine.access.audit.live import ALL_JOBS, JOB, KnownJob, jobs_at
from sqlengine.access.audit.log import AuditLog, Event, time_text
from sqlengine.connectors.plain_secrets import masked
from sqlengine.jobs.job import Job, JobVersion
from sqlengine.jobs.log import JobChange, JobLog

# Characters of a difference at most; texts that are longer are not compared.
_LONGEST_DIFF: Final = 20_000
_LONGEST_TEXT: Final = 50_000


class Trail:
    """Tells an audit log of changes of jobs. `write` is called by one thread."""

    def __init__(self, audit: AuditLog, folder: Path) -> None:
        """`folder`: of the log, which says what it knows already."""
        self._audit = audit
        last = jobs_at(folder)
        self._known, self._begun = dict(last.jobs), last.known
        audit.first = self.all_jobs

    def begin(self, log: JobLog) -> None:
        """Tells of all changes of a job log from now on, and first of those that were missed: a
        crash came between them and their lines, or there was no audit log."""
        found, versions = dict(log.jobs), log.versions
        events = [
            _event("missed", name, job, text_of_version(versions, job))
            for name, job in found.items()
            if not self._is_known(job)
        ]
        gone = self._known.keys() - found.keys()
        events += [Event("", "server", f"{JOB}removed", name) for name in sorted(gone)]
        self._known = {n: known_job(j, text_of_version(versions, j)) for n, j in found.items()}
        if not self._begun:
            events = self.all_jobs()
        if events:
            self._audit.write(events)
        log.told = self.write

    def _is_known(self, job: Job) -> bool:
        known = self._known.get(job.name)
        return known is not None and (known.version, known.state) == (job.version, job.state)

    def write(self, changes: Sequence[JobChange]) -> None:
        """Writes changes of jobs; they are told when it returns, or wait for space."""
        for change in changes:
            self._known.pop(change.renamed, None)
            if change.after is None:
                self._known.pop(change.name, None)
            else:
                self._known[change.name] = known_job(change.after, change.text)
        self._audit.write([_event_of(change) for change in changes])

    def all_jobs(self) -> list[Event]:
        """Returns the line with all jobs, with which each file begins. Any thread."""
        jobs = {name: asdict(job) for name, job in dict(self._known).items()}
        return [Event("", "server", ALL_JOBS, more=(("jobs", jobs),))]


def known_job(job: Job, text: JobVersion | None) -> KnownJob:
    """Returns what a line with all jobs has of one."""
    by = "" if text is None else text.by
    since, own = time_text(job.changed_ms), "" if text is None else text_hash(text.sql)
    return KnownJob(job.version, job.state.value, since, by, "", own)


def text_of_version(
    versions: Mapping[str, Mapping[int, JobVersion]], job: Job
) -> JobVersion | None:
    """Returns the present version of a job, None where it is not known."""
    return versions.get(job.name, {}).get(job.version)


def text_hash(sql: str) -> str:
    """Returns the SHA-256 of a text as it is shown, in hexadecimal digits."""
    return hashlib.sha256(masked(sql).encode("utf-8", "surrogatepass")).hexdigest()


def _event_of(change: JobChange) -> Event:
    actor = present_actor()
    by = change.by or actor.by
    if change.after is None:
        what, version = f"{JOB}removed", 0 if change.before is None else change.before.version
        via = (("via", actor.what),) if actor.what else ()
        return Event(by, actor.peer, what, change.name, version, more=via)
    more: dict[str, object] = {"via": actor.what, "renamed": change.renamed}
    if change.before is not None and change.before.version != change.after.version:
        more["before"] = change.before.version
    if change.text is not None and change.action in ("added", "replaced"):
        old = "" if change.old_text is None else masked(change.old_text.sql)
        more["diff"] = difference(old, masked(change.text.sql))
    return _event(change.action, change.name, change.after, change.text, by, actor.peer, more)


def _event(
    action: str,
    name: str,
    job: Job,
    text: JobVersion | None,
    by: str = "",
    peer: str = "server",
    more: Mapping[str, object] | None = None,
) -> Event:
    told: dict[str, object] = {"state": job.state.value, "origin": job.origin.value}
    if text is not None:
        told |= {"text_sha256": text_hash(text.sql), "file": text.file}
    told |= {**(more or {}), "reason": job.reason}
    kept = tuple((name, value) for name, value in told.items() if value)
    return Event(by, peer, f"{JOB}{action}", name, job.version, more=kept)


def difference(old: str, new: str) -> str:
    """Returns the lines that differ between two texts, as `diff -u` has them without its head."""
    if max(len(old), len(new)) > _LONGEST_TEXT:
        return f"texts of {len(old):,} and {len(new):,} characters, which are not compared"
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    told = "\n".join(lines)
    cut = len(told) - _LONGEST_DIFF
    return told if cut <= 0 else f"{told[:_LONGEST_DIFF]}\n… and {cut:,} characters more"
