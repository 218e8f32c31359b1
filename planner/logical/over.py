"""OVER: calls over the rows around each row (StreamPhysicalOverAggregate of Flink)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final, Self

from parser.errors import Position
from parser.types import Column, DataType, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity
from planner.logical.node import LogicalPlan, Names, OneInput, Stateful, keys_within
from planner.logical.ranks import SortKey

# Of rows in the order in which they come, or in that of time: which of them count as alerts.
ALERT_FUNCTIONS: Final = frozenset({"SUPPRESSED", "REACHED"})


@dataclass(frozen=True)
class Frame:
    """The frame of an OVER call: the rows from `preceding` before the current one to `following`.

    Bounds are rows (ROWS) or distances in the order (RANGE; ms of time, or units of 10 to the power
    of -`scale`). None is UNBOUNDED; a negative bound is on the other side of the current row. In
    streams, frames end with the current row. `preceding_in`: the column with the bound of each row,
    the same in all of a partition; None where it is `preceding`."""

    is_rows: bool = False
    preceding: int | None = None
    following: int | None = 0
    scale: int = 0
    preceding_in: str | None = None

    def __str__(self) -> str:
        start = "UNBOUNDED" if self.preceding is None else self.preceding_in or str(self.preceding)
        end = "UNBOUNDED" if self.following is None else str(self.following)
        to = "" if self.following == 0 else f" TO {end} FOLLOWING"
        units = f" IN UNITS OF 1E-{self.scale}" if self.scale else ""
        return f"{'ROWS' if self.is_rows else 'RANGE'} {start} PRECEDING{to}{units}"


@dataclass(frozen=True)
class OverCall:
    """A call of one function over the frame.

    `arguments` are the input's columns that it reads, `constants` its literal arguments: the offset
    of LAG, the N of NTILE, or the ms and the rows of SUPPRESSED. An offset that is no literal is
    the last argument. `name` and `type` are those of the result column."""

    name: str
    function: str
    arguments: tuple[str, ...]
    type: DataType
    argument_type: DataType | None = None
    constants: tuple[int, ...] = ()

    def __str__(self) -> str:
        args = ", ".join((*self.arguments, *map(str, self.constants)))
        return f"{self.function}({args}) AS {self.name}"


@dataclass(frozen=True)
class Over(OneInput, Stateful):
    """Adds to each row the results of `calls` over a `frame` of its `partition`, sorted by `order`.

    Output: the input's columns, then those of the calls. `at_end` (batch mode): rows are emitted at
    the end of input, and frames may reach rows that follow."""

    reads_all_columns: ClassVar[bool] = True

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    frame: Frame
    calls: tuple[OverCall, ...]
    position: Position | None = field(default=None, compare=False, repr=False)
    at_end: bool = False

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {n: n for n in self.input.schema.names}

    def forwards_window(self, port: int) -> bool:
        """True if each window is a partition of its own: a Top-N may then be one within windows."""
        below = self.input.window_properties
        return below is not None and below.start_and_end(self.partition) is not None

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        if self.changes:
            return None
        return ModifiedMonotonicity.of_all(self.schema.names, Monotonicity.CONSTANT)

    def for_each(self, columns: Schema) -> LogicalPlan:
        return replace(self, partition=(*self.partition, *columns.names))

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return None if self.at_end else self.for_each(numbers[0])

    @cached_property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.columns, *(Column(c.name, c.type) for c in self.calls)))

    @property
    def label(self) -> str:
        by = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        order = f"ORDER BY {', '.join(map(str, self.order))} " if self.order else ""
        return f"{', '.join(map(str, self.calls))} OVER ({by}{order}{self.frame})"

    @property
    def parameters(self) -> tuple[str, ...]:
        calls = (f"{c} {c.type}" for c in self.calls)
        end = ("at end",) if self.at_end else ()
        return (
            *self.partition,
            "|",
            *map(str, self.order),
            "|",
            str(self.frame),
            "|",
            *calls,
            *end,
        )

    @property
    def in_time(self) -> bool:
        """True if the order is a time attribute: no row is inserted before rows already emitted."""
        kinds = [self.input.schema.type(k.column) for k in self.order]
        return len(kinds) == 1 and (kinds[0].is_rowtime or kinds[0].is_proctime)

    @property
    def depends_on_batches(self) -> bool:
        """False in the order of time: a row's result never changes, and comes when it is known."""
        return not self.in_time

    @property
    def drops_late(self) -> bool:
        return (
            self.in_time
            and not self.at_end
            and self.input.schema.type(self.order[0].column).is_rowtime
        )

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE if self.in_time or self.at_end else ModifyKindSet.ALL

    @property
    def outlasts_changes(self) -> bool:
        """True if it only counts alerts: a rule that is changed stays silent as long as before."""
        return all(c.function in ALERT_FUNCTIONS for c in self.calls)

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(c.function for c in self.calls)

    def pruned(self, wanted: Names) -> Self:
        return replace(self, calls=tuple(c for c in self.calls if c.name in wanted))

    def reads(self, outputs: Names, port: int) -> Names:
        own = {c.name for c in self.calls}
        keys = {*self.partition, *(k.column for k in self.order)}
        if self.frame.preceding_in is not None:
            keys.add(self.frame.preceding_in)
        return (outputs - own) | keys | {a for c in self.calls for a in c.arguments}

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.partition

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return keys_within(self.input.upsert_keys, frozenset(self.partition))
