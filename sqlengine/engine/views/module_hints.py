"""Hints on modules of users whose files say something else by now than the jobs run."""

from __future__ import annotations

from collections.abc import Iterable

from sqlengine.functions.library import Library
from sqlengine.jobs.job import Job
from sqlengine.jobs.log import JobLog


def module_hints(jobs: Iterable[Job], log: JobLog, library: Library) -> dict[str, str]:
    """Returns the hint of each job whose functions have changed in the folder since. Each module is
    read once."""
    edited: dict[tuple[str, str], bool] = {}
    hints: dict[str, str] = {}
    for job in jobs:
        for key, content in log.version(job.name, job.version).modules.items():
            module = key, content
            if module not in edited:
                edited[module] = library.edited(key, content)
            if edited[module]:
                hints[job.name] = (
                    f"module '{key}' has changed since: submit the job again to run it"
                    " (a file of the watched folder: change it)"
                )
    return hints
