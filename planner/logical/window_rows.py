"""Rows within windows: joined to those of the same window, or the first of it in an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from planner.logical.change_kinds import ModifyKindSet
from planner.logical.joins import BinaryJoin
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import Names, always, constant_if_insert_only
from planner.logical.ranks import Rank


@dataclass(frozen=True)
class WindowRank(Rank):
    """The rows of each window and partition that have the wanted ranks, once the window is over.
    `bounds`: its start and end, which are among the columns of the partition."""

    folds: ClassVar[bool] = False
    judges_lateness: ClassVar[bool] = True

    bounds: tuple[str, str] = ("", "")

    forwards_window = always

    def column_sources(self, port: int) -> Mapping[str, str]:
        return super().column_sources(port)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return constant_if_insert_only(self)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*super().parameters, *self.bounds)

    def exchange(self, port: int) -> tuple[str, ...]:
        return super().exchange(port)

    @cached_property
    def deduplicates(self) -> bool:
        if self.start != 1 or self.end != 1 or len(self.order) != 1:
            return False
        kind = self.input.schema.type(self.order[0].column)
        return kind.is_rowtime or kind.is_proctime

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE


@dataclass(frozen=True)
class WindowJoin(BinaryJoin):
    """Pairs of rows of the same window, once it is over. `starts` and `ends`: its bounds, left and
    right. Time attributes stay what they are."""

    judges_lateness: ClassVar[bool] = True

    starts: tuple[str, str] = ("", "")
    ends: tuple[str, str] = ("", "")

    monotonicity = cached_property(constant_if_insert_only)

    def forwards_window(self, port: int) -> bool:
        """True if every row is made of one of that side, so that its bounds are not NULL."""
        return not self.kind.keeps(1 - port)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*super().parameters, *self.starts, *self.ends)

    def reads(self, outputs: Names, port: int) -> Names:
        return super().reads(outputs, port) | {self.starts[port], self.ends[port]}

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE
