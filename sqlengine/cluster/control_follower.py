"""How an instance follows its leader: it prepares changes for its parts beside the stream, and
switches them."""

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
    Control,
    ControlLog,
    InspectState,
    Pause,
    Prepare,
    Problem,
    Resume,
    Switch,
)
from sqlengine.cluster.pause_handler import PauseHandler
from sqlengine.cluster.subtask import Subtask
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.recovery import recovering
from sqlengine.graphs.running import NotTogether

log = logging.getLogger("sqlengine")

Made: TypeAlias = dict[int, tuple[Subtask, GraphChange]]


@dataclass(frozen=True)
class Pending:
    """A change on its way: what is being prepared for which part."""

    entry: Prepare
    made: Future[Made]


class ControlLogFollower:
    """`version` is that of the last switch that was read. `line` prepares; all methods are called
    from one other thread. `refresh` makes known the job versions that have come."""

    def __init__(
        self,
        name: str,
        control: ControlLog,
        line: Executor,
        refresh: Callable[[], None],
        answer: Callable[[Answer], None],
        holding: PauseHandler,
    ) -> None:
        self.version = 0
        self._name = name
        self._control = control
        self._line = line
        self._refresh = refresh
        self._answer = answer
        self._holding = holding
        self._pending: Pending | None = None
        self._next = 0
        waiting: tuple[int, Prepare] | None = None
        for offset, entry in control.read():
            self._next = offset + 1
            waiting = (offset, entry) if isinstance(entry, Prepare) else None
            self.version = entry.version if isinstance(entry, Switch) else self.version
            if isinstance(entry, Pause | CollectState | Resume):
                holding.obey(offset, entry, {})
        if waiting is not None:
            self._obey(*waiting, {})

    def catch_up(self, part: Subtask) -> None:
        """Makes the switches that a part which is opened has not made."""
        for entry in self._control.switches(part.runner.graph.version, self.version):
            self._switch(part, entry, None)
        self._holding.take_up(part)

    def listen(self, parts: Mapping[int, Subtask]) -> None:
        """Does what the leader has decided since."""
        for offset, entry in self._control.read(self._next):
            self._next = offset + 1
            self._obey(offset, entry, parts)

    def give_up(self) -> None:
        """The change that was prepared does not come."""
        pending, self._pending = self._pending, None
        if pending is not None:
            for _, change in pending.made.result().values():
                change.abandon()

    def _obey(self, offset: int, entry: Control, parts: Mapping[int, Subtask]) -> None:
        match entry:
            case Prepare():
                self.give_up()
                made = self._line.submit(self._prepare, offset, entry, dict(parts))
                self._pending = Pending(entry, made)
            case Abandon():
                self.give_up()
            case Switch():
                self._switch_all(entry, parts)
            case InspectState():
                self._holding.show(offset, entry, parts)
            case Pause() | CollectState() | Resume():
                self._holding.obey(offset, entry, parts)

    def _prepare(self, number: int, entry: Prepare, parts: Mapping[int, Subtask]) -> Made:
        """A part that comes after this prepares when it switches."""
        made: Made = {}
        problem = None
        try:
            self._refresh()
            for index, part in parts.items():
                if part.runner.graph.version == entry.version - 1:
                    made[index] = part, _whole(part, entry)
        except BrokerUnreachable:
            return made
        except SqlError as error:
            problem = Problem(
                error.message, error.detail, error.hint, isinstance(error, NotTogether)
            )
        except Exception as error:
            log.exception("version %d cannot be prepared", entry.version)
            problem = Problem("internal error", repr(error))
        self._answer(Answer(self._name, number, problem))
        return made

    def _switch_all(self, entry: Switch, parts: Mapping[int, Subtask]) -> None:
        pending, self._pending = self._pending, None
        made = pending.made.result() if pending is not None else {}
        for index, part in parts.items():
            held, change = made.pop(index, (None, None))
            if part.runner.graph.version == entry.version - 1:
                self._try(part, entry, change if held is part else None)
        for _, change in made.values():  # of parts that have gone since
            change.abandon()
        self.version = entry.version

    def _try(self, part: Subtask, entry: Switch, change: GraphChange | None) -> None:
        """A part that does not make the switch, as one that was lost in this moment, stays behind
        the others."""
        try:
            self._switch(part, entry, change)
        except BrokerUnreachable:
            raise
        except SqlError as error:
            log.warning("%s has not switched to version %d: %s", part.name, entry.version, error)
        except Exception:
            log.exception("%s has not switched to version %d", part.name, entry.version)

    def _switch(self, part: Subtask, entry: Switch, change: GraphChange | None) -> None:
        if change is None:
            self._refresh()
            with recovering(part.runner):
                change = _change(part, entry)
        restored = {} if change.restored is None else change.restored.positions
        part.switch(replace(change, starts={**entry.starts, **restored}, moved=entry.moved))


def _change(part: Subtask, entry: Prepare | Switch) -> GraphChange:
    """The change for one part, made ready."""
    told = LoggedChange(entry.version, entry.jobs, {}, entry.renamed, entry.handover)
    return part.graph.prepare_logged_change(part.runner.graph, told)


def _whole(part: Subtask, entry: Prepare) -> GraphChange:
    """The same; raises why a job of it cannot be planned."""
    change = _change(part, entry)
    for name, version in entry.jobs.items():
        if version and not change.jobs.get(name):
            change.abandon()
            raise part.graph.lost_jobs[name]
    if entry.handover:
        try:
            part.graph.check_attachable(change, entry.handover)
        except SqlError:
            change.abandon()
            raise
    return change
