"""Rows for several groupings at once: GROUPING SETS, ROLLUP, CUBE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import BIGINT, Column, Schema
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    after_only_of_inputs,
    always,
    changes_of_inputs,
)

_MARK = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class Expand(OneInput):
    """Emits each row once for each of `sets`, in their order, with NULL in the `keys` that are not
    in the set.

    Behind the input's columns stand `copies` (a name, and the column whose value it keeps) and
    `marks` (a name, and a number for each set)."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    keys: tuple[str, ...]
    sets: tuple[Names, ...]
    copies: tuple[tuple[str, str], ...] = ()
    marks: tuple[tuple[str, tuple[int, ...]], ...] = ()

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    forwards_window = always

    def column_sources(self, port: int) -> Mapping[str, str]:
        return self.sources

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        return None if below is None else below.unknown(self.schema.names)

    def ignores(self, columns: Names) -> bool:
        return True

    def for_each(self, columns: Schema) -> LogicalPlan:
        return self

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self

    @cached_property
    def emptied(self) -> Mapping[str, tuple[bool, ...]]:
        """Maps the keys that are not in all sets to flags: for each set, True if it lacks the
        key."""
        lacking = {key: tuple(key not in s for s in self.sets) for key in self.keys}
        return {key: lacks for key, lacks in lacking.items() if any(lacks)}

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Maps each output column to the input's column whose value it holds in every row."""
        own = {n: n for n in self.input.schema.names if n not in self.emptied}
        return {**own, **dict(self.copies)}

    @cached_property
    def schema(self) -> Schema:
        below = self.input.schema
        own = (
            Column(c.name, c.type.with_nullable(True)) if c.name in self.emptied else c
            for c in below
        )
        copies = (Column(name, below.type(of)) for name, of in self.copies)
        return Schema((*own, *copies, *(Column(name, _MARK) for name, _ in self.marks)))

    @property
    def label(self) -> str:
        return ", ".join(f"({', '.join(k for k in self.keys if k in s)})" for s in self.sets)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (
            self.label,
            *(f"{n} {of}" for n, of in self.copies),
            *(f"{n} {values}" for n, values in self.marks),
        )

    def pruned(self, wanted: Names) -> Self:
        copies = tuple(c for c in self.copies if c[0] in wanted)
        return replace(self, copies=copies, marks=tuple(m for m in self.marks if m[0] in wanted))

    def reads(self, outputs: Names, port: int) -> Names:
        read = {of for name, of in self.copies if name in outputs}
        return frozenset(read | (outputs & set(self.input.schema.names)))
