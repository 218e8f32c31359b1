"""NEW_TERM: whether values were there before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from parser.errors import Position
from parser.types import BOOLEAN, Column, Schema
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    Stateful,
    always,
    changes_of_inputs,
    constant_if_insert_only,
    same_columns,
)


@dataclass(frozen=True)
class NewTerm(OneInput, Stateful):
    """Adds the BOOLEAN column `name`: TRUE where no row with equal `terms` came within `memory_ms`
    before the row (0: ever); NULL where one of the terms is.

    Time is that of the column `time`, a row time; of the clock without one."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False
    reads_all_columns: ClassVar[bool] = True
    # Rows are judged one after the other, so that no batch shows.
    folds: ClassVar[bool] = False

    terms: tuple[str, ...]
    memory_ms: int
    name: str
    time: str | None = None
    position: Position | None = field(default=None, compare=False, repr=False)

    changes = cached_property(changes_of_inputs)
    monotonicity = cached_property(constant_if_insert_only)
    column_sources = same_columns
    forwards_window = always

    @cached_property
    def schema(self) -> Schema:
        return Schema((*self.input.schema.columns, Column(self.name, BOOLEAN)))

    @property
    def label(self) -> str:
        within = f" within {self.memory_ms} ms" if self.memory_ms else ""
        return f"{self.name} of {', '.join(self.terms)}{within} by {self.time or 'the clock'}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.terms, "|", str(self.memory_ms), self.name, self.time or "")

    def reads(self, outputs: Names, port: int) -> Names:
        time = {self.time} if self.time is not None else set()
        return (outputs - {self.name}) | set(self.terms) | time

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.terms

    def for_each(self, columns: Schema) -> LogicalPlan:
        """Returns the node with a memory of its own for each value of the columns."""
        return replace(self, terms=(*self.terms, *columns.names))

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self.for_each(numbers[0])
