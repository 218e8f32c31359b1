"""Alerts that are held back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import Schema
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    after_only_of_inputs,
    always,
    changes_of_inputs,
    same_columns,
)
from planner.scalar import Scalar, columns_of


@dataclass(frozen=True)
class HoldBack(OneInput):
    """Holds back the alerts for which `predicate` is TRUE, for the `reason` that the head of their
    rule gives. Unlike a `Filter` it stays where it is: what it holds back are alerts. `counts`: it
    counts them, where no operation below has done so."""

    forwards_row_time: ClassVar[bool] = True

    predicate: Scalar
    reason: str
    counts: bool = False

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = same_columns
    forwards_window = always

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return self.input.monotonicity

    @property
    def label(self) -> str:
        return f"{self.predicate} ({self.reason})"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.predicate.digest, self.reason, *(["counts"] if self.counts else []))

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return (self.predicate,)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        return replace(self, predicate=expressions[0])

    def for_each(self, columns: Schema) -> LogicalPlan:
        return self

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """The operation itself, but where it counts: its counter is that of its job."""
        return None if self.counts else self

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | columns_of(self.predicate)
