"""Windows of time, and aggregates over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import Column, DataType, Schema, timestamp
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    Stateful,
    after_only_of_inputs,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    same_columns,
)
from planner.logical.window_kinds import Session
from planner.logical.window_properties import WindowBound, WindowProperties
from planner.logical.window_specs import AlignedWindow, Window
from udf.aggregates.registry import BUFFERED

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


def window_columns(source: Schema, time_column: str, names: Sequence[str]) -> tuple[Column, ...]:
    """Start and end, TIMESTAMP(3) NOT NULL, and the last millisecond, a time attribute where the
    time column is one."""
    start, end, last = names
    bound = timestamp(3).with_nullable(False)
    of = source.type(time_column)
    time = DataType(of.root, nullable=False, precision=3, time=of.time)
    return Column(start, bound), Column(end, bound), Column(last, time)


@dataclass(frozen=True)
class WindowAssign(OneInput):
    """Puts each row into all windows that contain its time: the input's columns, then the window's.

    `sliced`: each row comes once, with the bounds of its slice instead."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    window: AlignedWindow
    names: tuple[str, str, str] = WINDOW_COLUMNS
    sliced: bool = False

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = same_columns
    forwards_window = never  # its rows are in its own windows
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def made_window(self) -> Window:
        return self.window

    @property
    def window_names(self) -> tuple[str, str, str]:
        return self.names

    @cached_property
    def window_properties(self) -> WindowProperties:
        return WindowProperties(self.window, dict(zip(self.names, WindowBound, strict=True)))

    @cached_property
    def schema(self) -> Schema:
        source = self.input.schema
        return Schema(
            (*source.columns, *window_columns(source, self.window.time_column, self.names))
        )

    @property
    def label(self) -> str:
        return f"slices of {self.window}" if self.sliced else str(self.window)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (
            str(self.window),
            self.window.zone,
            *self.names,
            *(("sliced",) if self.sliced else ()),
        )

    def reads(self, outputs: Names, port: int) -> Names:
        of_window = {self.window.time_column, *self.window.lengths_in}
        return (outputs - set(self.names)) | of_window

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        one_window = self.sliced or self.window.is_disjoint
        more = frozenset(() if one_window else self.names[:2])
        return tuple(key | more for key in self.input.upsert_keys)


@dataclass(frozen=True)
class SessionAssign(OneInput, Stateful):
    """Adds the bounds of its session to each row, once the session is over."""

    folds: ClassVar[bool] = False
    reads_all_columns: ClassVar[bool] = True
    judges_lateness: ClassVar[bool] = True

    window: Session
    names: tuple[str, str, str] = WINDOW_COLUMNS

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = never  # its rows are in its own windows
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def made_window(self) -> Window:
        return self.window

    @property
    def window_names(self) -> tuple[str, str, str]:
        return self.names

    @cached_property
    def window_properties(self) -> WindowProperties:
        return WindowProperties(self.window, dict(zip(self.names, WindowBound, strict=True)))

    @cached_property
    def schema(self) -> Schema:
        source = self.input.schema
        return Schema(
            (*source.columns, *window_columns(source, self.window.time_column, self.names))
        )

    @property
    def label(self) -> str:
        return str(self.window)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.window), self.window.zone, *self.window.keys, "|", *self.names)

    def reads(self, outputs: Names, port: int) -> Names:
        of_window = {self.window.time_column, *self.window.lengths_in, *self.window.keys}
        return (outputs - set(self.names)) | of_window

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.window.keys

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return replace(self, window=self.window.with_keys(numbers[0].names))


@dataclass(frozen=True)
class AggregateCall:
    """`function` of `udf.aggregates.registry` over the input column `argument` (None for COUNT(*));
    `name` and `type` are those of the result column. `filter_column` names a BOOLEAN input column:
    only rows where it is TRUE count."""

    name: str
    function: str
    argument: str | None
    type: DataType
    argument_type: DataType | None = None
    distinct: bool = False
    filter_column: str | None = None

    @property
    def columns(self) -> Names:
        """The columns of the input that it reads."""
        return frozenset(n for n in (self.argument, self.filter_column) if n is not None)

    def __str__(self) -> str:
        distinct = "DISTINCT " if self.distinct else ""
        where = f" FILTER ({self.filter_column})" if self.filter_column else ""
        return f"{self.function}({distinct}{self.argument or '*'}){where} AS {self.name}"


@dataclass(frozen=True)
class WindowAggregate(OneInput, Stateful):
    """Groups rows by window and `keys`, and emits the groups of a window once it is over.

    Output: keys, aggregates, then start, end, time. `shared`: the rows carry the slices of these
    windows (`WindowAssign.sliced` below), which are merged when a window is over: the latest first,
    or (`earliest_first`) the other way. `session`: the rows carry no window columns, but a time
    from which sessions by `keys` are made."""

    folds: ClassVar[bool] = False
    judges_lateness: ClassVar[bool] = True

    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    window_columns: tuple[str, str, str] = WINDOW_COLUMNS
    shared: AlignedWindow | None = None
    session: Session | None = None
    earliest_first: bool = False

    forwards_window = never  # a window is one row of each key now, which names it itself

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return constant_if_insert_only(self)

    def column_sources(self, port: int) -> Mapping[str, str]:
        bounds = () if self.session is not None else self.window_columns
        return {n: n for n in (*self.keys, *bounds)}

    @property
    def made_window(self) -> Window | None:
        return self.session

    @property
    def window_names(self) -> tuple[str, str, str]:
        return self.window_columns

    @cached_property
    def window_properties(self) -> WindowProperties:
        bounds = dict(zip(self.window_columns, WindowBound, strict=True))
        return WindowProperties(windows_below(self)[0], bounds)

    @cached_property
    def schema(self) -> Schema:
        source = self.input.schema
        keys = tuple(Column(k, source.type(k)) for k in self.keys)
        calls = tuple(Column(a.name, a.type) for a in self.aggregates)
        if self.session is None:
            return Schema(keys + calls + source.select(self.window_columns).columns)
        return Schema(
            keys + calls + window_columns(source, self.session.time_column, self.window_columns)
        )

    @property
    def label(self) -> str:
        windows = f" in {self.shared or self.session}" if self.shared or self.session else ""
        bounds = self.window_columns[:2]
        return (
            f"by {', '.join((*self.keys, *bounds))}{windows}:"
            f" {', '.join(map(str, self.aggregates))}"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        windows = self.shared or self.session
        kind = (
            ()
            if windows is None
            else (str(windows), windows.zone, *(("earliest",) if self.earliest_first else ()))
        )
        return (
            *self.keys,
            "|",
            *(f"{a} {a.type}" for a in self.aggregates),
            "|",
            *self.window_columns,
            *kind,
        )

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(a.function for a in self.aggregates)

    def late_schema(self, port: int) -> Schema:
        """A row that shares a slice with others has the bounds of that, which say nothing of a
        window."""
        source = self.input.schema
        if self.shared is None:
            return source
        return source.select(tuple(n for n in source.names if n not in self.window_columns))

    def pruned(self, wanted: Names) -> Self:
        return replace(self, aggregates=tuple(c for c in self.aggregates if c.name in wanted))

    def reads(self, outputs: Names, port: int) -> Names:
        times = self.window_columns if self.session is None else (self.session.time_column,)
        made = self.shared or self.session
        lengths = () if made is None else made.lengths_in
        of_calls = (a.columns for a in self.aggregates)
        return frozenset((*self.keys, *times, *lengths)).union(*of_calls)

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.keys

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """None for calls whose values wait for the end of any window."""
        if any(a.function.endswith(BUFFERED) for a in self.aggregates):
            return None
        names = numbers[0].names
        session = None if self.session is None else self.session.with_keys(names)
        return replace(self, keys=(*self.keys, *names), session=session)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        """Each column of the window with the keys: a key has one row for a window. Windows that
        share a start are told apart by their ends alone."""
        one_start = windows_below(self)[0].shares_start
        columns = self.window_columns[1:] if one_start else self.window_columns
        return tuple(frozenset((*self.keys, c)) for c in columns)


@dataclass(frozen=True)
class EmittingAggregate(WindowAggregate):
    """Emits the result of a window before it is over, and again for late rows (`table.exec.emit`):
    each time that it has changed, as an update.

    `early_ms` and `late_ms`: how long after a row, 0 at once, None not at all (`late_ms` None: late
    rows count, but emit nothing). Rows are late when the window has been over for `lateness_ms`."""

    folds: ClassVar[bool] = True

    early_ms: int | None = None
    late_ms: int | None = None
    lateness_ms: int = 0

    forwards_window = never

    def column_sources(self, port: int) -> Mapping[str, str]:
        return super().column_sources(port)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return None  # what late rows change goes either way

    def exchange(self, port: int) -> tuple[str, ...]:
        return super().exchange(port)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*super().parameters, str(self.early_ms), str(self.late_ms), str(self.lateness_ms))

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.UPDATES

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return None


def windows_below(plan: LogicalPlan) -> tuple[Window, DataType]:
    """The windows whose columns the rows of `plan` carry, and the type of their time."""
    while (window := plan.made_window) is None:
        plan = plan.inputs[0]
    names = plan.window_names
    assert names is not None, f"{type(plan).__name__} puts rows into windows"
    return window, plan.schema.type(names[WindowBound.TIME])
