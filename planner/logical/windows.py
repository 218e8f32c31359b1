"""Windows of time, and aggregates over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from parser.types import Column, DataType, Schema, TimeAttribute, timestamp
from planner.logical.node import LogicalPlan, Names, Stateful


@dataclass(frozen=True)
class Tumble:
    """Windows of `size_ms` that begin at multiples of it plus `offset_ms`, in the time zone `zone`."""

    time_column: str
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    def __str__(self) -> str:
        offset = f", offset {self.offset_ms} ms" if self.offset_ms else ""
        return f"TUMBLE({self.time_column}, {self.size_ms} ms{offset})"


WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


@dataclass(frozen=True)
class WindowAssign(LogicalPlan):
    """Each row with the window that it falls into: the input's columns, then `start` and `end` (TIMESTAMP(3) NOT NULL)
    and `time` (the last millisecond, a row-time attribute)."""

    hands_on: ClassVar[bool] = True

    input: LogicalPlan
    window: Tumble
    names: tuple[str, str, str] = WINDOW_COLUMNS

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        bound = timestamp(3).with_nullable(False)
        source = self.input.schema.type(self.window.time_column)
        time = DataType(source.root, nullable=False, precision=3, time=TimeAttribute.ROWTIME)
        start, end, last = self.names
        return Schema((*self.input.schema.columns, Column(start, bound), Column(end, bound), Column(last, time)))

    @property
    def label(self) -> str:
        return str(self.window)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.window), self.window.zone, *self.names)

    def reads(self, outputs: Names, port: int) -> Names:
        return (outputs - set(self.names)) | {self.window.time_column}

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class AggregateCall:
    """`function` of `udf.aggregates` over the input column `argument` (None for COUNT(*)); `name` and `type` are those
    of the result column. `filter_column` names a BOOLEAN input column: only rows where it is TRUE count."""

    name: str
    function: str
    argument: str | None
    type: DataType
    argument_type: DataType | None = None
    distinct: bool = False
    filter_column: str | None = None

    @property
    def columns(self) -> Names:
        """Those of the input that it reads."""
        return frozenset(n for n in (self.argument, self.filter_column) if n is not None)

    def __str__(self) -> str:
        distinct = "DISTINCT " if self.distinct else ""
        where = f" FILTER ({self.filter_column})" if self.filter_column else ""
        return f"{self.function}({distinct}{self.argument or '*'}){where} AS {self.name}"


@dataclass(frozen=True)
class WindowAggregate(Stateful):
    """Groups rows that carry window columns (`WindowAssign` below) by window and `keys`; a window's rows come out once
    the watermark has passed `time`. Output: keys, aggregates, then start, end, time."""

    folds: ClassVar[bool] = False

    input: LogicalPlan
    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    window_columns: tuple[str, str, str] = WINDOW_COLUMNS

    @property
    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(Column(k, self.input.schema.type(k)) for k in self.keys)
        calls = tuple(Column(a.name, a.type) for a in self.aggregates)
        return Schema(keys + calls + self.input.schema.select(self.window_columns).columns)

    @property
    def label(self) -> str:
        return f"by {', '.join((*self.keys, *self.window_columns[:2]))}: {', '.join(map(str, self.aggregates))}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.keys, "|", *(f"{a} {a.type}" for a in self.aggregates), "|", *self.window_columns)

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(a.function for a in self.aggregates)

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset((*self.keys, *self.window_columns)).union(*(a.columns for a in self.aggregates))

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.keys

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset((*self.keys, *self.window_columns[:2])),)
