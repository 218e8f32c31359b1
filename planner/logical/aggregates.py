"""Aggregates without windows: one row per key, changed with each row that comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from parser.types import Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.monotonicity import ModifiedMonotonicity, Monotonicity, Readers, of_aggregate
from planner.logical.node import LogicalPlan, Names, OneInput, Stateful, never
from planner.logical.windows import AggregateCall


@dataclass(frozen=True)
class GroupAggregate(OneInput, Stateful):
    """Groups rows by `keys` and updates the group's result with every change of its rows.

    A group without rows has no result. Without `keys` there is one group; `always`: it has a result
    of no rows too, once input is at its end. Without `aggregates` it is DISTINCT. Output: keys,
    then aggregates."""

    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    always: bool = False

    forwards_window = never

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {k: k for k in self.keys}

    @cached_property
    def schema(self) -> Schema:
        keys = self.input.schema.select(self.keys)
        return Schema((*keys, *(Column(a.name, a.type) for a in self.aggregates)))

    @property
    def label(self) -> str:
        return (
            f"by {', '.join(self.keys) or 'nothing'}:"
            f" {', '.join(map(str, self.aggregates)) or 'distinct'}"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        return (
            *self.keys,
            "|",
            *(f"{a} {a.type}" for a in self.aggregates),
            *(("always",) if self.always else ()),
        )

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(a.function for a in self.aggregates)

    def pruned(self, wanted: Names) -> Self:
        """A result that nobody reads changes nothing, as in Flink. One of all rows together keeps a
        call: it is there."""
        calls = tuple(c for c in self.aggregates if c.name in wanted)
        return replace(self, aggregates=calls if calls or self.keys else self.aggregates[:1])

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.keys).union(*(a.columns for a in self.aggregates))

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.keys

    @cached_property
    def changes(self) -> ModifyKindSet:
        updates = ModifyKindSet.UPDATES if self.aggregates else ModifyKindSet.NONE
        return updates | (ModifyKindSet.DELETES if self.input.changes else ModifyKindSet.NONE)

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        below = self.input.monotonicity
        if below is None or not below.is_constant(self.keys):
            return None
        known = self.input.nonnegative
        calls = {
            c.name: of_aggregate(c.function, c.argument, below, known) for c in self.aggregates
        }
        columns = {**dict.fromkeys(self.keys, Monotonicity.CONSTANT), **calls}
        return ModifiedMonotonicity(columns, below.readers)

    @property
    def nonnegative(self) -> Names:
        return frozenset(c.name for c in self.aggregates if c.function.startswith("COUNT"))

    @property
    def monotonic_extremes(self) -> Names:
        """The calls, by the names of their columns, that need not take back what an update
        replaces: MAX of what increases and MIN of what decreases."""
        known = self.monotonicity
        columns = {} if known is None else known.known_to(Readers.AGGREGATES)
        wanted = {"MAX": Monotonicity.INCREASING, "MIN": Monotonicity.DECREASING}
        return frozenset(
            c.name
            for c in self.aggregates
            if c.name in columns and columns[c.name] is wanted.get(c.function)
        )

    def for_each(self, columns: Schema) -> LogicalPlan:
        return replace(self, keys=(*self.keys, *columns.names))

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        """None where a group has a result of no rows: nobody would know of the member."""
        return None if not self.keys or self.always else self.for_each(numbers[0])

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset(self.keys),)
