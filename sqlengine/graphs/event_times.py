"""Event time in a running graph: the watermarks of its tables, and what waits for later ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from parser.errors import ServiceError
from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.measures.waiting import Waiting
from sqlengine.graphs.loop import GraphLoop
from sqlengine.operators.watermark import WatermarkOperator

# How old an answer may be, and how long a reader waits for the end of an epoch: briefly, where the
# last one has waited in vain.
_FRESH_S, _PATIENCE_S, _BRIEF_S = 0.5, 1.0, 0.02


class ShardTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """The watermark of a shard (ms; MIN_WATERMARK before its first row). An `idle` one does not
    hold the others back."""

    watermark: int
    idle: bool = False


class TableTimes(msgspec.Struct, frozen=True):
    """The watermark of a table (ms), and those of its shards, from which it is combined."""

    watermark: int
    shards: dict[str, ShardTime] = {}


class EventTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Event time in a graph, by node: the `tables` that have a watermark, what is `waiting`, and
    the number of rows dropped as `late` since the graph was opened."""

    tables: dict[str, TableTimes] = {}
    waiting: dict[str, Waiting] = {}
    late: dict[str, int] = {}


def event_times(executor: EmbeddedExecutor) -> EventTimes:
    """Returns event time as it is between two epochs (graph thread)."""
    nodes = executor.running
    operators = {name: n.operator for name, n in nodes.items()}
    return EventTimes(
        {
            name: TableTimes(o.watermark, {s: ShardTime(*t) for s, t in o.shards().items()})
            for name, o in operators.items()
            if isinstance(o, WatermarkOperator)
        },
        executor.waiting(),
        executor.counts.late_by_node(),
    )


def merge_event_times(parts: Iterable[EventTimes]) -> EventTimes:
    """Returns the event time of a graph that runs as these subtasks."""
    tables: dict[str, TableTimes] = {}
    waiting: dict[str, Waiting] = {}
    late: dict[str, int] = {}
    for part in parts:
        for name, times in part.tables.items():
            known = tables.get(name)
            tables[name] = times if known is None else _merged(known, times)
        for name, own in part.waiting.items():
            waiting[name] = own.plus(waiting[name]) if name in waiting else own
        for name, rows in part.late.items():
            late[name] = late.get(name, 0) + rows
    return EventTimes(tables, waiting, late)


def _merged(left: TableTimes, right: TableTimes) -> TableTimes:
    """Returns the times of a table of which each subtask reads some shards, perhaps none."""
    read = [t for t in (left, right) if t.shards]
    watermark = min((t.watermark for t in read), default=MIN_WATERMARK)
    return TableTimes(watermark, left.shards | right.shards)


class EventTimesCache:
    """The last known event time of a graph. Any thread; `now`: monotonic seconds."""

    def __init__(
        self, loop: GraphLoop, executor: EmbeddedExecutor, now: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._now = now
        self._known = EventTimes()
        self._fresh_until = 0.0
        self._busy = False

    def get(self) -> EventTimes:
        """Returns event time as of now, or the last known one while the graph is busy."""
        if not self._loop.running or self._now() >= self._fresh_until:
            patience = _BRIEF_S if self._busy else _PATIENCE_S
            try:
                self._known = self._loop.call(lambda: event_times(self._executor), patience)
                self._busy = False
            except ServiceError:
                self._busy = True
            self._fresh_until = self._now() + _FRESH_S
        return self._known
