"""SUPPRESSION: rows that are alerts, counted in periods that end with a row of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from parser.errors import Position
from parser.types import BIGINT, Column, Schema, TimeAttribute
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import (
    LogicalPlan,
    OneInput,
    Stateful,
    constant_if_insert_only,
    never,
    same_columns,
)


@dataclass(frozen=True)
class AlertPeriods(OneInput, Stateful):
    """Adds the column `name` to the rows of each `partition`: 0 where a row passes, of which there
    are so many `rows` in each period; NULL where it is held back. A period in which rows were held
    back ends with a row more, the last of these with their number.

    Time is that of the column `time`, for whose end the watermark counts; the clock's without
    one."""

    reads_all_columns: ClassVar[bool] = True
    # Rows are judged one after the other, so that no batch shows.
    folds: ClassVar[bool] = False

    partition: tuple[str, ...]
    period_ms: int
    rows: int
    name: str
    time: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)

    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE

    @cached_property
    def schema(self) -> Schema:
        """The row that ends a period is older than the watermark: no time is a time attribute."""
        below = self.input.schema.columns
        plain = (Column(c.name, c.type.as_attribute(TimeAttribute.NONE)) for c in below)
        return Schema((*plain, Column(self.name, BIGINT)))

    @property
    def outlasts_changes(self) -> bool:
        """True: a rule that is changed stays silent as long as before."""
        return True

    @property
    def meaning(self) -> tuple[str, ...]:
        """Its parameters and the columns, as it keeps rows."""
        return (*self.parameters, "|", *map(str, self.schema))

    @property
    def label(self) -> str:
        by = f" PARTITION BY {', '.join(self.partition)}" if self.partition else ""
        time = self.time or "the clock"
        return f"{self.rows} in {self.period_ms} ms of {time}{by} AS {self.name}"

    @property
    def parameters(self) -> tuple[str, ...]:
        most = (str(self.period_ms), str(self.rows))
        return (*self.partition, "|", *most, self.name, self.time or "")

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.partition

    def for_each(self, columns: Schema) -> LogicalPlan:
        return replace(self, partition=(*self.partition, *columns.names))

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self.for_each(numbers[0])
