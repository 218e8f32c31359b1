"""Jobs at a moment of the past, as the lines of an audit log tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlengine.access.audit.log import files_in, time_text
from sqlengine.access.shadow_names import is_shadow

# The request of a line that has the state of all jobs, and the beginning of those that tell of one.
ALL_JOBS: Final = "all jobs"
JOB: Final = "job "
STARTED, STOPPED = "start server", "stop server"
RUNNING: Final = "running"
_WANTED: Final = tuple(f'"what":"{what}'.encode() for what in (ALL_JOBS, JOB, STARTED, STOPPED))
Line = Mapping[str, object]


@dataclass(frozen=True)
class KnownJob:
    """A job at some moment. `since`: when it came to this state, as its line has it ('': before the
    log began); `by`, `peer`: who had asked for it; `hash`: SHA-256 of the text."""

    version: int
    state: str
    since: str = ""
    by: str = ""
    peer: str = ""
    hash: str = ""


@dataclass(frozen=True)
class Moment:
    """All jobs at some moment. `known`: False for one before the log began; `up`: False while no
    server ran; `proven`: False where the log does not show that the server still ran, as one that
    was killed writes no last line. `last`: the time of the last line before it ('': none)."""

    jobs: Mapping[str, KnownJob]
    known: bool = True
    up: bool = True
    proven: bool = True
    last: str = ""

    def live(self) -> dict[str, KnownJob]:
        """Returns the jobs that ran, by name, without shadows: these write to no table."""
        found = {n: j for n, j in self.jobs.items() if j.state == RUNNING and not is_shadow(n)}
        return dict(sorted(found.items())) if self.up else {}


def jobs_at(folder: Path, time_ms: int | None = None, *, runs: bool = True) -> Moment:
    """Returns the jobs at a time, or after the last line. `runs`: the server whose log it is runs
    now, and has since its last start."""
    until = None if time_ms is None else time_text(time_ms)
    lines: list[Line] = []
    following: Line | None = None
    for path in reversed(files_in(folder)):
        found = list(_lines(path))
        of_file = [line for line in found if until is None or str(line["time"]) <= until]
        following = next(iter(found[len(of_file) :]), following)
        lines = [*of_file, *lines]
        if any(line["what"] == ALL_JOBS for line in of_file):
            went_on = runs if following is None else following["what"] != STARTED
            return _after(lines, went_on)
    return Moment({}, known=False)


def _lines(path: Path) -> Iterator[Line]:
    """Yields the lines of a file that tell of jobs or of the server."""
    for line in path.read_bytes().split(b"\n"):
        if any(wanted in line for wanted in _WANTED):
            try:
                found = json.loads(line)
            except ValueError:
                continue  # 'sql audit verify' tells it
            if isinstance(found, dict) and {"time", "what"} <= found.keys():
                yield found


def _after(lines: Sequence[Line], went_on: bool) -> Moment:
    """The jobs after these lines. `went_on`: the server that wrote the last of them ran longer."""
    jobs: dict[str, KnownJob] = {}
    up = True
    for line in lines:
        what, name = str(line["what"]), str(line.get("object", ""))
        if what == ALL_JOBS:
            jobs = _all_of(line)
        elif what in (STARTED, STOPPED):
            up = what == STARTED
        elif what.startswith(JOB) and "state" not in line:
            jobs.pop(name, None)
        elif what.startswith(JOB):
            jobs.pop(str(line.get("renamed", "")), None)
            jobs[name] = _job_of(line)
    return Moment(jobs, up=up, proven=went_on or not up, last=str(lines[-1]["time"]))


def _all_of(line: Line) -> dict[str, KnownJob]:
    found = line.get("jobs")
    jobs: Mapping[str, object] = found if isinstance(found, dict) else {}
    return {
        name: _known(job, str(job.get("since", "")), str(job.get("hash", "")))
        for name, job in jobs.items()
        if isinstance(job, dict)
    }


def _job_of(line: Line) -> KnownJob:
    return _known(line, str(line["time"]), str(line.get("text_sha256", "")))


def _known(told: Line, since: str, text_hash: str) -> KnownJob:
    version = told.get("version")
    number = version if isinstance(version, int) else 0
    state, by, peer = (str(told.get(name, "")) for name in ("state", "by", "peer"))
    return KnownJob(number, state, since, by, peer, text_hash)
