"""INTERSECT and EXCEPT."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from parser.types import Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import Names, Stateful, TwoInputs


@dataclass(frozen=True)
class SetOperation(TwoInputs, Stateful):
    """Rows of `left` that are (INTERSECT) or are not (`is_except`) among those of `right`, each
    once or, with `all`, as often as in both, or by how much more often in `left`. NULL is equal to
    NULL. Columns by position."""

    row_schema: Schema
    is_except: bool
    all: bool

    @property
    def schema(self) -> Schema:
        return self.row_schema

    @property
    def label(self) -> str:
        return f"{'EXCEPT' if self.is_except else 'INTERSECT'}{' ALL' if self.all else ''}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.label, str(self.row_schema))

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.inputs[port].schema.names

    @cached_property
    def changes(self) -> ModifyKindSet:
        taken_back = self.left.changes or self.right.changes or self.is_except
        return ModifyKindSet.DELETES if taken_back else ModifyKindSet.NONE

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return () if self.all else (frozenset(self.schema.names),)
