"""Follows the control log in an instance: prepares changes beside the stream, and applies them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import TypeAlias

from parser.errors import SqlError
from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.cluster.control_log import (
    Abandon,
    Answer,
    CollectState,
    ControlEntry,
    ControlLog,
    EndSteps,
    InspectState,
    Pause,
    Prepare,
    Problem,
    Resume,
    Switch,
)
from sqlengine.cluster.pause_handler import PauseHandler
from sqlengine.cluster.step_watch import EndedJobs
from sqlengine.cluster.subtask import Subtask
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.failures import SourceAway
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.recovery.repeating import recovering
from sqlengine.graphs.host import NotAligned

log = logging.getLogger("sqlengine")

# The prepared change of each subtask, by the subtask's number.
PreparedChanges: TypeAlias = dict[int, tuple[Subtask, GraphChange]]


@dataclass(frozen=True)
class PendingPreparation:
    """A change that is being prepared, or has been, and is not committed yet."""

    entry: Prepare
    prepared: Future[PreparedChanges]


class ControlLogFollower:
    """Applies the entries of the control log to the subtasks of one instance.

    `version` is that of the last switch read. `executor` prepares changes; all methods are called
    from one other thread. `refresh` loads new job versions. `ends` takes the jobs whose steps must
    end."""

    def __init__(
        self,
        instance: str,
        control: ControlLog,
        executor: Executor,
        refresh: Callable[[], None],
        acknowledge: Callable[[Answer], None],
        pauses: PauseHandler,
        ends: EndedJobs,
    ) -> None:
        self.version = 0
        self._instance = instance
        self._control = control
        self._executor = executor
        self._refresh = refresh
        self._acknowledge = acknowledge
        self._pauses = pauses
        self._ends = ends
        self._pending: PendingPreparation | None = None
        self._next = 0
        unanswered: tuple[int, Prepare] | None = None
        for offset, entry in control.read():
            self._next = offset + 1
            if isinstance(entry, EndSteps):
                self._ends.add(entry)
                continue
            # Any later entry commits or cancels the preparation, so that only the last entry can be
            # open.
            unanswered = (offset, entry) if isinstance(entry, Prepare) else None
            self.version = entry.version if isinstance(entry, Switch) else self.version
            if isinstance(entry, Pause | CollectState | Resume):
                pauses.handle(offset, entry, {})
        if unanswered is not None:  # the leader waits for every member, this new one included
            self._handle(*unanswered, {})

    def catch_up(self, subtask: Subtask) -> None:
        """Applies the switches that a newly opened subtask has missed, and pauses it if need be."""
        for entry in self._control.switches(subtask.runner.graph.version, self.version):
            self._switch(subtask, entry, None)
        self._pauses.apply_to(subtask)

    def removed(self, away: SourceAway) -> dict[tuple[str, int], tuple[int, SqlError]]:
        """Returns those of the job versions that wait for a source that are not in the graph any
        more, as `SubtaskContext` leaves them out."""
        gone = self._control.removed()
        return {(n, v): (gone[n], away) for n, v in away.versions if n in gone}

    def poll(self, subtasks: Mapping[int, Subtask]) -> None:
        """Handles the entries that the leader has appended since the last call."""
        for offset, entry in self._control.read(self._next):
            self._next = offset + 1
            self._handle(offset, entry, subtasks)

    def abandon_pending(self) -> None:
        """Abandons the change that was prepared last, if it is not committed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            for _, change in pending.prepared.result().values():
                change.abandon()

    def _handle(self, offset: int, entry: ControlEntry, subtasks: Mapping[int, Subtask]) -> None:
        match entry:
            case Prepare():
                self.abandon_pending()
                prepared = self._executor.submit(self._prepare, offset, entry, dict(subtasks))
                self._pending = PendingPreparation(entry, prepared)
            case Abandon():
                self.abandon_pending()
            case Switch():
                self._switch_all(entry, subtasks)
            case EndSteps():
                self._ends.add(entry)
            case InspectState():
                self._pauses.inspect(offset, entry, subtasks)
            case Pause() | CollectState() | Resume():
                self._pauses.handle(offset, entry, subtasks)

    def _prepare(
        self, number: int, entry: Prepare, subtasks: Mapping[int, Subtask]
    ) -> PreparedChanges:
        """Prepares the change for each subtask, and acknowledges it.

        A subtask that is opened after this prepares the change when it switches."""
        prepared: PreparedChanges = {}
        problem = None
        try:
            self._refresh()
            for index, subtask in subtasks.items():
                if subtask.runner.graph.version == entry.version - 1:
                    prepared[index] = subtask, _complete_change(subtask, entry)
        except BrokerUnreachable:
            return prepared
        except SqlError as error:
            transient = isinstance(error, NotAligned)
            problem = Problem(error.message, error.detail, error.hint, transient)
        except Exception as error:
            log.exception("version %d cannot be prepared", entry.version)
            problem = Problem("internal error", repr(error))
        self._acknowledge(Answer(self._instance, number, problem))
        return prepared

    def _switch_all(self, entry: Switch, subtasks: Mapping[int, Subtask]) -> None:
        pending, self._pending = self._pending, None
        prepared = pending.prepared.result() if pending is not None else {}
        for index, subtask in subtasks.items():
            # A subtask that was reopened since is another object: a change prepared for the former
            # one has its sources and operators.
            prepared_for, change = prepared.pop(index, (None, None))
            if subtask.runner.graph.version == entry.version - 1:
                self._try_switch(subtask, entry, change if prepared_for is subtask else None)
        for _, change in prepared.values():  # of subtasks that were closed since
            change.abandon()
        self.version = entry.version

    def _try_switch(self, subtask: Subtask, entry: Switch, change: GraphChange | None) -> None:
        """Switches a subtask; one that cannot stays at its version, and is reopened later."""
        try:
            self._switch(subtask, entry, change)
        except BrokerUnreachable:
            raise
        except SqlError as error:
            log.warning("%s has not switched to version %d: %s", subtask.name, entry.version, error)
        except Exception:
            log.exception("%s has not switched to version %d", subtask.name, entry.version)

    def _switch(self, subtask: Subtask, entry: Switch, change: GraphChange | None) -> None:
        if change is None:
            self._refresh()
            with recovering(subtask.runner):
                change = _subtask_change(subtask, entry)
        restored = {} if change.restored is None else change.restored.positions
        subtask.switch(replace(change, starts={**entry.starts, **restored}, moved=entry.moved))


def _subtask_change(subtask: Subtask, entry: Prepare | Switch) -> GraphChange:
    """Prepares the change for one subtask, without jobs that cannot be planned any more."""
    logged = LoggedChange(entry.version, entry.jobs, {}, entry.renamed, entry.migration)
    return subtask.graph.prepare_logged_change(subtask.runner.graph, logged)


def _complete_change(subtask: Subtask, entry: Prepare) -> GraphChange:
    """Prepares the change for one subtask. SqlError if a job of it cannot be planned, or attached
    here."""
    change = _subtask_change(subtask, entry)
    for name, version in entry.jobs.items():
        if version and not change.jobs.get(name):
            change.abandon()
            raise subtask.graph.lost_jobs[name]
    if entry.migration:
        try:
            subtask.graph.arrivals.check(change, entry.migration)
        except SqlError:
            change.abandon()
            raise
    return change
