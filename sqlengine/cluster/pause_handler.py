"""Pauses the subtasks of one instance for the leader, and stores their snapshots of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parser.errors import SqlError
from planner.graph.distribution import INCOMING
from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.ownership import Fence
from sqlengine.cluster.control_log import (
    CollectState,
    Done,
    InspectState,
    Pause,
    PauseEntry,
    Problem,
    Resume,
)
from sqlengine.cluster.subtask import Subtask
from sqlengine.executors.state_inspection import inspect_state
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.snapshots.rescaling import subtask_snapshot


class PauseHandler:
    """Applies the leader's pause entries to subtasks, and reports when they are quiesced.

    `publish` sends a report, with a fence if only the owner of the subtask may send it. All
    methods are called from the thread of the subtasks."""

    def __init__(
        self,
        instance: str,
        snapshots: MigrationStore,
        publish: Callable[[Done, Fence | None], None],
    ) -> None:
        self._instance = instance
        self._snapshots = snapshots
        self._publish = publish
        # The entries that are in effect, with their numbers.
        self._pause: tuple[int, Pause] | None = None
        self._collect: tuple[int, CollectState] | None = None
        self._reported: dict[int, tuple[Subtask, Done]] = {}

    def handle(self, number: int, entry: PauseEntry, subtasks: Mapping[int, Subtask]) -> None:
        """Applies an entry to the subtasks that run here, and to those that are opened later."""
        match entry:
            case Pause():
                # New bounds: a snapshot at the former ones is not wanted any more.
                self._pause, self._collect = (number, entry), None
            case CollectState():
                self._collect = number, entry
            case Resume():
                self._pause = self._collect = None
        if not isinstance(entry, CollectState):
            for subtask in subtasks.values():
                self.apply_to(subtask)

    def apply_to(self, subtask: Subtask) -> None:
        """Pauses or resumes a subtask, like the others."""
        if self._pause is not None:
            subtask.runner.pause(self._pause[1].bounds)
        else:
            subtask.runner.resume()

    def inspect(self, number: int, entry: InspectState, subtasks: Mapping[int, Subtask]) -> None:
        """Reports the state of a job's operations in each subtask."""
        for index, subtask in subtasks.items():
            try:
                state = inspect_state(subtask.runner, entry.job, entry.operation, entry.limit)()
                self._publish(Done(self._instance, number, index, state=state), None)
            except BrokerUnreachable:
                raise
            except SqlError as error:
                self._publish(self._failed(number, index, error), None)

    def report(self, subtasks: Mapping[int, Subtask]) -> None:
        """Reports, once each, the subtasks that are quiesced or have stored their snapshot.

        The fence refuses the report of an instance that has lost the subtask without knowing it:
        it would replace the report of the owner."""
        if self._pause is None:
            return
        for index, subtask in subtasks.items():
            done = self._completed(index, subtask)
            # The shuffle may bring rows after a first report: then the offset differs, and is
            # reported again.
            if done is not None and self._reported.get(index) != (subtask, done):
                self._publish(done, subtask.fence())
                self._reported[index] = subtask, done

    def _completed(self, index: int, subtask: Subtask) -> Done | None:
        """Returns the report of a subtask that has done what the last entry requests."""
        assert self._pause is not None
        number = self._pause[0] if self._collect is None else self._collect[0]
        try:
            if not subtask.runner.quiesced:
                return None
            if self._collect is not None:
                job = self._collect[1].job
                if job not in subtask.runner.graph.jobs:
                    return None  # the subtask was opened after the job had been removed
                return self._store_snapshot(number, job, index, subtask)
        except BrokerUnreachable:
            raise
        except SqlError as error:
            return self._failed(number, index, error)
        inputs = subtask.runner.inputs.running
        # The shuffle has one shard for each subtask, so that one position is all.
        shuffled = next(iter(inputs[INCOMING].positions.values())) if INCOMING in inputs else 0
        positions = {
            name: dict(source.positions) for name, source in inputs.items() if name != INCOMING
        }
        return Done(self._instance, number, index, shuffled, positions)

    def _failed(self, number: int, index: int, error: SqlError) -> Done:
        problem = Problem(error.message, error.detail, error.hint)
        return Done(self._instance, number, index, problem=problem)

    def _store_snapshot(self, number: int, job: str, index: int, subtask: Subtask) -> Done:
        """Stores the subtask's snapshot of the job, once.

        Each instance uses a name of its own, so that one which has lost the subtask without
        knowing it overwrites nothing."""
        name = f"{job}#{number}-{index}-{self._instance}"
        reported = self._reported.get(index)
        if reported is None or reported[0] is not subtask or reported[1].snapshot != name:
            self._snapshots.put(name, subtask_snapshot(subtask.runner, job))
        return Done(self._instance, number, index, snapshot=name)
