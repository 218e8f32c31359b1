"""Pauses all subtasks of a distributed graph until it is quiesced, and collects snapshots there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from parser.errors import JobError, ServiceError
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.cluster.control_log import (
    CollectState,
    ControlLog,
    Done,
    InspectState,
    Pause,
    Resume,
)
from sqlengine.cluster.worker_reports import WorkerReports
from sqlengine.connectors.shuffle import shuffle_topic
from sqlengine.executors.sources import Positions
from sqlengine.executors.state_inspection import StateView
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.snapshots.migrations import MigrationStore

# Subtasks that are not quiesced within this time are resumed.
QUIESCE_TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.05


class CoordinatedGraph(Protocol):
    """The view of a distributed graph that its coordinator needs."""

    name: str
    parallelism: int
    control: ControlLog
    worker_reports: WorkerReports

    def now(self) -> int:
        """Returns the time in ms."""

    def poll_reports(self) -> None:
        """Processes reports of instances if no other thread does."""

    def left_out(self, job: str) -> str | None:
        """Returns why parts have lost what a job of the graph had; None if they have it."""


@dataclass
class PauseStats:
    """The pauses of all subtasks since the server started: their number, and their total time in
    s from the request to pause until the request to resume."""

    count: int = 0
    seconds: float = 0.0


class PauseCoordinator:
    """Pauses, quiesces and resumes the subtasks of one graph.

    `clock` returns monotonic seconds. The caller of `quiesce` must not wait for the graph's loop
    within it."""

    def __init__(
        self,
        graph: CoordinatedGraph,
        broker: Broker,
        snapshots: Callable[[], MigrationStore],
        clock: Callable[[], float],
    ) -> None:
        self._graph = graph
        self._clock = clock
        self._resume_pending = False
        self._broker = broker
        self._snapshots = snapshots
        self.stats = PauseStats()

    @contextmanager
    def quiesce(self, timeout_s: float = QUIESCE_TIMEOUT_S) -> Iterator[Positions]:
        """Pauses all subtasks for the body of the `with`, and gives the positions of their sources.

        No source is read and the shuffle is drained. ServiceError if they are not quiesced in
        time; they are resumed in any case."""
        began = self._clock()
        try:
            yield self.advance_to({}, timeout_s)
        finally:
            self.resume()
            self.stats.count += 1
            self.stats.seconds += self._clock() - began

    def advance_to(self, bounds: Positions, timeout_s: float = QUIESCE_TIMEOUT_S) -> Positions:
        """Lets paused subtasks read up to `bounds`, and returns the positions of their sources once
        they are quiesced again."""
        self._resume_pending = False
        entry = Pause({name: dict(shards) for name, shards in bounds.items()})
        number = self._graph.control.append(entry, self._graph.now())
        positions: dict[str, dict[str, int]] = {}
        # Each shard is read by one subtask: their positions are disjoint.
        for done in self._await_all(number, self._shuffle_drained, timeout_s).values():
            for name, shards in done.positions.items():
                positions.setdefault(name, {}).update(shards)
        return positions

    def resume_after_restart(self) -> None:
        """Resumes subtasks that the previous server process paused."""
        entries = [
            entry
            for _, entry in self._graph.control.read()
            if isinstance(entry, Pause | CollectState | Resume)
        ]
        if entries and not isinstance(entries[-1], Resume):
            self.resume()

    def resume(self) -> None:
        """Resumes all subtasks, or notes that this could not be written yet."""
        try:
            self._graph.control.append(Resume(), self._graph.now())
            self._resume_pending = False
        except BrokerError:  # a full disk
            # The subtasks stay paused: the leader's loop tries again with each step.
            self._resume_pending = True

    def retry_resume(self) -> None:
        """Resumes subtasks that are paused only because there was no space for the entry."""
        if self._resume_pending:
            self.resume()

    def collect_snapshots(self, job: str) -> list[JobSnapshot]:
        """Returns the job's snapshot of each subtask, in their order. They must be quiesced."""
        number = self._graph.control.append(CollectState(job), self._graph.now())
        collected = self._await_all(number, lambda done: self._require_whole(job))
        store = self._snapshots()
        names = [collected[index].snapshot for index in range(self._graph.parallelism)]
        try:
            snapshots = [store.get(name) for name in names]
        finally:
            for name in names:
                # Merged in memory by the caller: nothing refers to the stored parts any more.
                store.remove(name)
        return [snapshot for snapshot in snapshots if snapshot is not None]

    def _require_whole(self, job: str) -> bool:
        """True; JobError if parts have lost what the job had, so that they never answer for it."""
        reason = self._graph.left_out(job)
        if reason is not None:
            raise JobError(f"job '{job}' has lost its state in a part", detail=reason)
        return True

    def inspect_state(self, job: str, operation: int, limit: int) -> list[StateView]:
        """Returns the state of a job's operations in each subtask, between two of its epochs."""
        number = self._graph.control.append(InspectState(job, operation, limit), self._graph.now())
        inspected = self._await_all(number, lambda done: True)
        states = (inspected[index].state for index in range(self._graph.parallelism))
        return [state for state in states if state is not None]

    def _shuffle_drained(self, quiesced: dict[int, Done]) -> bool:
        """True if each subtask has read all that was sent to it.

        A subtask sends its rows before it reports that it is quiesced. So once each one has read
        to the end, no row has been sent since."""
        topic = shuffle_topic(self._graph.name)
        return all(
            done.shuffle_offset == self._broker.end_offset(topic, index)
            for index, done in quiesced.items()
        )

    def _await_all(
        self,
        number: int,
        complete: Callable[[dict[int, Done]], bool],
        timeout_s: float = QUIESCE_TIMEOUT_S,
    ) -> dict[int, Done]:
        """Returns once all subtasks have done what entry `number` requests, and `complete` holds.

        JobError if one of them cannot do it, ServiceError after `timeout_s`."""
        deadline, wait = self._clock() + timeout_s, 0.0
        while True:
            by_subtask = self._graph.worker_reports.done(number, wait)
            for done in by_subtask.values():
                if done.problem is not None:
                    problem = done.problem
                    raise JobError(problem.message, detail=problem.detail, hint=problem.hint)
            if complete(by_subtask) and len(by_subtask) == self._graph.parallelism:
                return by_subtask
            if self._clock() > deadline:
                raise self._timeout(set(range(self._graph.parallelism)) - by_subtask.keys())
            self._graph.poll_reports()
            wait = _POLL_INTERVAL_S

    def _timeout(self, silent: set[int]) -> ServiceError:
        return ServiceError(
            f"the parts of graph '{self._graph.name}' are busy",
            detail=f"part {min(silent)} does not answer"
            if silent
            else "rows are on their way all the time",
            hint="nothing was changed; 'sql instances' shows what they do",
        )
