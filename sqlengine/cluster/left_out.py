"""The job versions whose steps the leader of a distributed graph has ended in its parts.

What such a job has is gone where its step was ended, so that it leaves the graph as a whole. Until
the checkpoints of all subtasks are without it, recoveries leave it out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlengine.cluster.control_log import ControlEntry, ControlLog, EndSteps, Switch


@dataclass(frozen=True)
class _Ended:
    """A request of the leader. `gone`: the version of the graph without the job version; None while
    that has it."""

    entry: EndSteps
    gone: int | None = None


class LeftOut:
    """The requests of one graph to end steps, by job. Belongs to the leader's threads, which write
    them one at a time; read by any."""

    def __init__(self, control: ControlLog) -> None:
        self._control = control
        self._ended: dict[str, _Ended] = {}

    def recover(self, entries: Iterable[ControlEntry]) -> None:
        """Takes what the control log has of an earlier process."""
        for entry in entries:
            if isinstance(entry, EndSteps):
                self._ended[entry.job] = _Ended(entry)
            elif isinstance(entry, Switch):
                self.switched(entry.version, entry.jobs)

    def end(self, job: str, job_version: int, version: int, reason: str, now_ms: int) -> None:
        """Has the instances end steps of a job version that is in `version` of the graph."""
        known = self._ended.get(job)
        if known is None or known.gone is not None or known.entry.job_version != job_version:
            entry = EndSteps(job, job_version, version, reason)
            self._control.append(entry, now_ms)
            self._ended[job] = _Ended(entry)

    def why(self, job: str) -> str | None:
        """Returns why steps of the job were ended, if that is still in the graph; None if not."""
        ended = self._ended.get(job)
        return None if ended is None or ended.gone is not None else ended.entry.reason

    def switched(self, version: int, jobs: Mapping[str, int]) -> None:
        """Takes note of jobs that left the graph with this version of it, or came back."""
        for job in jobs.keys() & self._ended.keys():
            ended = self._ended[job]
            if ended.gone is None and version > ended.entry.version:
                self._ended[job] = replace(ended, gone=version)

    def forget(self, stored: int, present: Mapping[str, int], now_ms: int) -> None:
        """Deletes what no recovery needs: `stored` is the least version of the graph in the
        checkpoints of all subtasks, `present` the versions of the jobs in the graph."""
        old = [
            job
            for job, ended in list(self._ended.items())
            if _first_without(ended, present.get(job)) <= stored
        ]
        if old:
            self._control.forget_ends(old, now_ms)
            for job in old:
                del self._ended[job]


def _first_without(ended: _Ended, present: int | None) -> float:
    """Returns the version of the graph from which on it is without the job version."""
    if ended.gone is not None:
        return ended.gone
    # A request may come while the switch is made with which the job leaves: the next one.
    left = present != ended.entry.job_version
    return ended.entry.version + 1 if left else math.inf
