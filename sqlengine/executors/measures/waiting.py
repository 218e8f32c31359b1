"""The windows, or rows, that operations keep until a later watermark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType
from planner.graph.family_members import number_columns
from planner.graph.physical import PhysicalNode
from planner.logical import (
    AlertPeriods,
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
from sqlengine.state.columns import BoolArray, IntArray
from sqlengine.state.table import KeyedTable

# Rows that wait for nothing have a time far behind all real ones, or none.
_NEVER = 1 << 60
_FIRES = "#fires"  # in tables of windows


class Waiting(msgspec.Struct, frozen=True):
    """`number` windows, or rows, that wait for a later watermark, the first for `first` (ms)."""

    first: int
    number: int
    windows: bool

    def plus(self, other: Waiting) -> Waiting:
        """Returns the windows, or rows, of two subtasks."""
        return Waiting(min(self.first, other.first), self.number + other.number, self.windows)


def waiting_in(node: PhysicalNode, tables: Mapping[str, KeyedTable]) -> Waiting | None:
    """Returns what an operation keeps until a later watermark, in its `tables` by the operator's
    names; None where there is nothing."""
    plan = node.plan
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


def waiting_of_members(node: PhysicalNode, tables: Mapping[str, KeyedTable]) -> dict[int, Waiting]:
    """Returns what a family keeps until a later watermark, by the member's number."""
    found: dict[int, Waiting] = {}
    assert isinstance(node.plan, LogicalPlan)
    for table, column in _timers(node.plan, tables):
        if column not in table.columns:
            continue
        slots = _waiting_slots(table, column)
        times = table.columns[column].astype(np.int64)[slots]
        (of_member, *_) = number_columns(table.keys.names)
        numbers, which = np.unique(
            table.columns[of_member].view(np.int64)[slots], return_inverse=True
        )
        counts = np.zeros(len(numbers), np.int64)
        np.add.at(counts, which, ~_met(node.plan, table, slots))
        first = np.full(len(numbers), _NEVER)
        np.minimum.at(first, which, times)
        windows = column == _FIRES
        values = (numbers.tolist(), first.tolist(), counts.tolist())
        for number, time, count in zip(*values, strict=True):
            one = Waiting(time + windows, count, windows)
            found[number] = one.plus(found[number]) if number in found else one
    return found


def _waiting_slots(table: KeyedTable, column: str) -> IntArray:
    """Returns the slots of the rows of a table that wait."""
    slots = table.live()
    waits = table.columns[column].astype(np.int64)[slots] < _NEVER
    if f"{column}?" in table.columns:
        waits &= table.columns[f"{column}?"][slots].astype(np.bool_)
    found: IntArray = slots[waits]
    return found


def _met(plan: LogicalPlan, table: KeyedTable, slots: IntArray) -> BoolArray:
    """Returns which rows of a join have found a match, and wait for nothing."""
    if not isinstance(plan, IntervalJoin):
        return np.zeros(len(slots), np.bool_)
    met: BoolArray = table.columns["#met"][slots].astype(np.bool_)
    return met


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
        case AlertPeriods() if plan.time is not None:
            yield from _named(tables, "keys", "#due")
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
        return int(np.count_nonzero(~_met(plan, table, table.live())))
    if not isinstance(plan, Rank | EmittingAggregate | AlertPeriods):
        return len(table)
    times = table.array(column, table.live())
    return int(pc.sum(pc.less(times.cast(pa.int64()), _NEVER)).as_py() or 0)
