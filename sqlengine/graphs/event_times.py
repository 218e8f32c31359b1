"""Event time in a running graph: the watermarks of its tables, and what waits for later ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ServiceError
from parser.types import DataType
from planner.logical import (
    EmittingAggregate,
    IntervalJoin,
    LogicalPlan,
    MatchRecognize,
    Over,
    Rank,
    SessionAssign,
    TemporalJoin,
    TemporalSort,
    WindowAggregate,
    WindowJoin,
    WindowRank,
    windows_below,
)
from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.embedded import EmbeddedExecutor, RunningNode
from sqlengine.graphs.loop import GraphLoop
from sqlengine.operators.late_rows import LATE_ROWS
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.state.table import KeyedTable

# Rows that wait for nothing have a time far behind all real ones, or none.
_NEVER = 1 << 60
_FIRES = "#fires"  # in tables of windows
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


class Waiting(msgspec.Struct, frozen=True):
    """`number` windows, or rows, that wait for a later watermark, the first for `first` (ms)."""

    first: int
    number: int
    windows: bool

    def plus(self, other: Waiting) -> Waiting:
        """Returns the windows, or rows, of two subtasks."""
        return Waiting(min(self.first, other.first), self.number + other.number, self.windows)


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
        {
            name: waiting
            for name, node in nodes.items()
            if (waiting := _waiting(node, executor.tables_here(name))) is not None
        },
        {name: late for name, n in nodes.items() if (late := n.context.counters[LATE_ROWS])},
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


def _waiting(node: RunningNode, tables: Mapping[str, KeyedTable]) -> Waiting | None:
    """Returns what an operation keeps until a later watermark; None where there is nothing."""
    plan = node.node.plan
    if not tables or not isinstance(plan, LogicalPlan):
        return None
    total: Waiting | None = None
    for table, column in _timers(plan, tables):
        first = table.earliest(column) if column in table.columns and len(table) else None
        if first is not None and first < _NEVER:
            windows = column == _FIRES
            # A window fires with its last millisecond: it waits for its end.
            one = Waiting(first + windows, _number(plan, table, column), windows)
            total = one if total is None else total.plus(one)
    return total


def _timers(
    plan: LogicalPlan, tables: Mapping[str, KeyedTable]
) -> Iterator[tuple[KeyedTable, str]]:
    """Yields the tables whose rows an operation emits once the watermark has passed a column."""
    match plan:
        case WindowAggregate() | WindowRank() | WindowJoin() | SessionAssign():
            if not _clock(plan).is_proctime:
                yield from ((t, _FIRES) for t in tables.values())
        case Over():
            yield from _named(tables, "waiting", "#due")
        case TemporalJoin():
            yield from _named(tables, "waiting", "#time")
        case MatchRecognize() if plan.by_event:
            yield from _named(tables, "waiting", plan.order[0].column)
        case TemporalSort():
            yield from _named(tables, "rows", plan.order[0].column)
        case Rank():
            yield from _named(tables, "rows", "#time")
        case IntervalJoin() if not plan.proctime:
            sides = ("left", "right")
            for port in (p for p in (0, 1) if plan.kind.keeps(p)):
                yield from _named(tables, sides[port], "#due")


def _clock(plan: LogicalPlan) -> DataType:
    """Returns the type of the time by which the windows of a plan are over."""
    return windows_below(plan.inputs[0] if plan.made_window is None else plan)[1]


def _named(
    tables: Mapping[str, KeyedTable], name: str, column: str
) -> Iterator[tuple[KeyedTable, str]]:
    return ((table, column) for n, table in tables.items() if n == name)


def _number(plan: LogicalPlan, table: KeyedTable, column: str) -> int:
    """Returns how many rows of the table wait."""
    if isinstance(plan, IntervalJoin):  # those that found a match wait for nothing
        return int(np.count_nonzero(~table.columns["#met"][table.live()].astype(np.bool_)))
    if not isinstance(plan, Rank | EmittingAggregate):
        return len(table)
    times = table.array(column, table.live())
    return int(pc.sum(pc.less(times.cast(pa.int64()), _NEVER)).as_py() or 0)


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
