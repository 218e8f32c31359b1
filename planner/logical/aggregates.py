"""Aggregates without windows: one row per key, changed with each row that comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from parser.types import Column, Schema
from planner.logical import movement as moves
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import Names, OneInput, Stateful
from planner.logical.windows import AggregateCall


@dataclass(frozen=True)
class GroupAggregate(OneInput, Stateful):
    """One row for each value of `keys` (none: one for all rows) that has rows; it changes as they
    come and go. Without `aggregates` it is DISTINCT. `always`: without `keys` there is one also of
    no rows, once input is at its end. Output: keys, then aggregates."""

    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    always: bool = False

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
    def movement(self) -> moves.Movement | None:
        below = self.input.movement
        if below is None or any(below.get(k) != 0 for k in self.keys):
            return None
        found = dict.fromkeys(self.keys, 0)
        for call in self.aggregates:
            positive = call.argument is not None and self.input.never_negative(call.argument)
            argument = None if call.argument is None else below.get(call.argument)
            moved = moves.of_aggregate(call.function, positive, argument)
            if moved is not None:
                found[call.name] = moved
        return found

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset(self.keys),)
