"""Rows that an operation did not take because they came too late."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from parser.types import STRING, Column, Schema, timestamp_ltz
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import (
    Names,
    OneInput,
    Stateful,
    constant_if_insert_only,
    never,
    no_columns,
)

# What had passed before the row came, and which operation dropped it; names that the row has itself
# stay the row's.
LATE_COLUMNS: Final = (
    Column("late_watermark", timestamp_ltz(3)),
    Column("late_operation", STRING.with_nullable(False)),
)


@dataclass(frozen=True)
class LateRows(OneInput):
    """Emits the late rows of input `port` of the operation below, with its columns and
    LATE_COLUMNS.

    They leave the operation by an output port of their own (a side output), and keep their
    kinds."""

    port: int

    column_sources = no_columns  # of the operation's results it has none
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def operation(self) -> Stateful:
        assert isinstance(self.input, Stateful)
        return self.input

    @cached_property
    def schema(self) -> Schema:
        known = self.operation.late_schema(self.port)
        return Schema((*known, *(c for c in LATE_COLUMNS if c.name not in known)))

    @property
    def label(self) -> str:
        return f"of {type(self.input).__name__}" + (
            f", input {self.port}" if len(self.input.inputs) > 1 else ""
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.port),)

    def reads(self, outputs: Names, port: int) -> Names:
        """Returns no columns: late rows hold nothing of the operation's results."""
        return frozenset()

    @cached_property
    def changes(self) -> ModifyKindSet:
        return self.operation.inputs[self.port].changes
