"""Joins to the one version of a row that holds at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from parser.types import Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.endpoints import LookedUpScan
from planner.logical.joins import BinaryJoin
from planner.logical.node import LogicalPlan, Names, constant_if_insert_only, never


@dataclass(frozen=True)
class _AsOf(BinaryJoin, abstract=True):
    """A join of each left row to the version of the right side's rows at its time. Only
    changes of the left side change the result."""

    moves_conditions: ClassVar[bool] = False

    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    def filters(self, port: int) -> bool:
        return port == 0

    @cached_property
    def changes(self) -> ModifyKindSet:
        return self.left.changes


@dataclass(frozen=True)
class TemporalJoin(_AsOf):
    """Joins each left row, once the watermark has passed its time, to the right side's row that was
    valid then: the last whose time is not after it."""

    left_time: str
    right_time: str

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*super().parameters, self.left_time, self.right_time)

    @property
    def label(self) -> str:
        return f"{super().label} AS OF {self.left_time}"

    def reads(self, outputs: Names, port: int) -> Names:
        return super().reads(outputs, port) | {(self.left_time, self.right_time)[port]}

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.left.upsert_keys


@dataclass(frozen=True)
class LookupJoin(_AsOf):
    """Joins each left row, when it comes, to the rows that the right side has then: a table that is
    read first; INNER, LEFT, SEMI or ANTI.

    `primary_key`: a row of the right side replaces the one that is equal in these columns (none:
    rows are only added)."""

    primary_key: tuple[str, ...] = ()

    def _columns(self, side: LogicalPlan, padded: bool) -> tuple[Column, ...]:
        columns = super()._columns(side, padded)
        if side is self.left:
            return columns
        return tuple(Column(c.name, c.type.made_from(c.type)) for c in columns)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*super().parameters, *self.primary_key)

    def reads(self, outputs: Names, port: int) -> Names:
        return super().reads(outputs, port) | (frozenset(self.primary_key) if port else frozenset())

    @property
    def shares_table(self) -> bool:
        """True if the table is a file that is mapped, or asked: whole, wherever a left row is."""
        return isinstance(self.right, LookedUpScan)

    def is_common(self, port: int) -> bool:
        return port == 1 and self.shares_table

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """None where it keeps what it has emitted for changes of the left side, without a match,
        too: such rows lack the number of the right side. Rows of a shared table have none."""
        if self.shares_table:
            return self
        padded = bool(self.left.changes) and self.kind.keeps(0)
        return None if padded else super().with_member(numbers)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        unique = bool(self.primary_key) and set(self.primary_key) <= set(self.keys(1))
        return self.left.upsert_keys if unique or self.kind.is_semi else ()
