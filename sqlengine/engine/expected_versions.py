"""The versions that who asks for a change believes its jobs to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parser.errors import JobError
from sqlengine.jobs.job import Job


@dataclass(frozen=True)
class Expected:
    """A job that has one of these versions, None for any; `absent`: no job at all."""

    versions: frozenset[int] | None = None
    absent: bool = False

    def met_by(self, job: Job | None) -> bool:
        """Returns whether a job is as expected."""
        if job is None or self.absent:
            return job is None and self.absent
        return self.versions is None or job.version in self.versions


class VersionMismatch(JobError):
    """A job is not at the version that a change was made for."""

    title = "version mismatch"


def check_expected(wanted: Mapping[str, Expected], jobs: Mapping[str, Job]) -> None:
    """Raises VersionMismatch for the first job that is not as expected."""
    for name, expected in wanted.items():
        job = jobs.get(name)
        if not expected.met_by(job):
            now = "does not exist" if job is None else f"is at version {job.version}"
            raise VersionMismatch(
                f"job '{name[:200]}' {now}",
                detail="the change was made for another version",
                hint="read the job again, and make the change on what it is now",
            )
