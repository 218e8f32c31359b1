"""Event time in a running graph: the watermarks of its tables, and what waits for later ones."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.measures.waiting import Waiting
from sqlengine.operators.watermark import WatermarkOperator


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
