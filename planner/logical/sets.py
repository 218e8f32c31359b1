"""INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from parser.types import Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import Names, Stateful, TwoInputs, constant_if_insert_only, never


@dataclass(frozen=True)
class SetOperation(TwoInputs, Stateful):
    """Emits rows of `left` that are (INTERSECT) or are not (`is_except`) among those of `right`.

    Each comes once or, with `all`, as often as in both, or by how much more often in `left`. NULL
    is equal to NULL. Columns by position."""

    row_schema: Schema
    is_except: bool
    all: bool

    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    def column_sources(self, port: int) -> Mapping[str, str]:
        if port == 1 and self.is_except:  # no row is made of one of the right side
            return {}
        return dict(zip(self.schema.names, self.inputs[port].schema.names, strict=True))

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
