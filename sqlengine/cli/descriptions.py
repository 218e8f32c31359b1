"""Words for what the server tells of jobs: where a version came from, why a job is in its state,
and when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sqlengine.client import Json
from sqlengine.control.scripts import SUFFIX
from sqlengine.system.words import span


def reason_of(job: Json) -> str:
    """Returns why the job is in its state; how often it failed in a row, when it starts again.
    A place in its own file is named without the file. Of a job that went apart this is past, so
    what is wrong now comes first:

    >>> reason_of({"reason": "sink 'a' waited: …", "isolated": "sink", "hint": "no rows come"})
    'no rows come'
    """
    now = job.get("hint") if job.get("isolated") else None
    told = now or job["reason"] or job.get("hint") or _canary_of(job)
    reason = str(told).removeprefix(f"{job.get('file')}:")
    restarts, at = job.get("restarts", 0), job.get("next_ms")
    if isinstance(at, int) and restarts:
        return f"failure {restarts}, again at {moment(at)[11:]}: {reason}"
    goes_on = "'sql start' goes on where it was" if job.get("position") else ""
    return "; ".join(filter(None, (reason, goes_on)))


def _canary_of(job: Json) -> str:
    """Returns how far the canary of a shadow has come, '' for another job."""
    canary = job.get("canary")
    if not isinstance(canary, Mapping):
        return ""
    return f"canary {canary['text']}: {span(canary['ran_ms'])} so far"


def origin_of(body: Json, name: str) -> str:
    """Returns the way by which a version of the job came, its principal, and its file as seen from
    the folder that was watched or submitted; of one that is planned again for the new definitions
    of other jobs, these too."""
    file, follows = body.get("file"), body.get("follows")
    by = f" by {body['by']}" if body.get("by") else ""
    came = f"{body['origin']}{by}" + (f" {_below_folder(str(file), name)}" if file else "")
    if not isinstance(follows, list) or not follows:
        return came
    return f"{came}, follows {', '.join(follows)}"


def _below_folder(file: str, job: str) -> str:
    """Returns the part of a path that the job is called after: team/a.sql for the job team.a. The
    file's name alone where the job has another name."""
    parts = Path(file).parts
    for begin in range(len(parts) - 1, -1, -1):
        if ".".join(parts[begin:]).removesuffix(SUFFIX) == job:
            return "/".join(parts[begin:])
    return parts[-1] if parts else file


def moment(value: object) -> str:
    """Returns a time of so many ms since 1970, in UTC as watermarks are."""
    assert isinstance(value, int)
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(value / 1000))
