"""The last epochs that the tables of a graph know: new ones must be numbered behind these, as a
table takes rows under a number that it knows for repeated ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

from parser.errors import SqlError, TryAgain
from planner.graph.physical import PhysicalPlan, PhysicalSink
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.boundary.asking import last_epochs
from sqlengine.executors.failures import EpochUnknown, UnavailableSink
from sqlengine.executors.sinks.waiting import WaitingSink

_NO_TABLE: Final = "other parts or dead letters"
log = logging.getLogger("sqlengine")


class LastEpochs:
    """Asks the `running` sinks of a graph, which have ids in `plan`; knows those that did not tell.

    `unasked`: these, and why. One that cannot tell is also `refused`, unless it has no space to
    begin."""

    def __init__(self, running: Mapping[str, Sink], refused: MutableMapping[str, SqlError]) -> None:
        self.plan: Mapping[str, PhysicalSink] = {}
        self.unasked: dict[str, SqlError] = {}
        self._running = running
        self._refused = refused

    def ask_all(self, epoch: int) -> int:
        """Returns the last epoch of this graph, which is at `epoch`, that a table knows."""
        self.unasked = {n: e for n, e in self._refused.items() if n in self._running}
        return self._ask(epoch, [n for n in self._running if n not in self.unasked])

    def ask_again(self, epoch: int) -> int:
        """Returns the same of tables that have not told yet."""
        return self._ask(epoch, [n for n in self.unasked if n not in self._refused])

    def ask_later(self, new: Iterable[str]) -> None:
        """Has new sinks of the plan asked by the next `ask_again`."""
        for name in (n for n in new if n in self.plan):
            what = f"table {display(name, self.plan)} was not asked yet which rows it has"
            self.unasked[name] = TryAgain(what)

    def _ask(self, epoch: int, names: Iterable[str]) -> int:
        told = last_epochs({name: self._running[name] for name in names})
        for name in told.known:
            self.unasked.pop(name, None)
        for name, error in told.errors.items():
            if name not in self.plan:  # rows between subtasks are no job's table
                raise error
            self.unasked[name] = error
            if not _lacks_space(error):
                self._refused[name] = EpochUnknown(display(name, self.plan), error)
        return last_of(told.known, epoch, self.plan)


def ask_new(plan: PhysicalPlan, new: Mapping[str, Sink]) -> Mapping[str, int]:
    """Returns the last epochs that new sinks of a plan know, by their ids, without those that are
    not open yet. Any thread. EpochUnknown where one cannot tell."""
    told = last_epochs({name: sink for name, sink in new.items() if is_open(sink)})
    for name, error in told.errors.items():
        raise EpochUnknown(display(name, plan.sinks), error)
    return told.known


def last_of(known: Mapping[str, int], epoch: int, plan: Mapping[str, PhysicalSink]) -> int:
    """Returns the last epoch that sinks of a plan know, `epoch` if none is later."""
    for name, last in known.items():
        if last > epoch:
            log.warning(
                "%s has rows of later epochs than its graph knows: the data folder is older, "
                "as one that was restored; what was written since comes again",
                display(name, plan),
            )
    return max((epoch, *known.values()))


def is_open(sink: Sink) -> bool:
    """True if the table of a sink is open; it may be opened later, or not be there at all."""
    return not (isinstance(sink, UnavailableSink) or (isinstance(sink, WaitingSink) and sink.waits))


def display(name: str, plan: Mapping[str, PhysicalSink]) -> str:
    """A sink of a plan, by its id, for people."""
    table = plan[name].sink.table if name in plan else None
    return _NO_TABLE if table is None else f"'{table.display}'"


def _lacks_space(error: SqlError) -> bool:
    return isinstance(error, TryAgain) and not isinstance(error, Busy)
