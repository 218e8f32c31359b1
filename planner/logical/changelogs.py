"""Changes of rows made whole, left out, kept for a table's key, and turned into plain rows and
back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from parser.types import Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import (
    LogicalPlan,
    Names,
    OneInput,
    Stateful,
    after_only_of_inputs,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    same_columns,
)
from planner.scalar import Scalar, columns_of


@dataclass(frozen=True)
class Normalize(OneInput, Stateful):
    """Completes an upsert stream: emits full updates by remembering the last row of each key
    (Flink's ChangelogNormalize).

    `keys` are the columns of the key; rows that do not pass `predicate` (None: all do) count as
    deleted. -U are ignored, so that changes that come twice do not count twice."""

    reads_all_columns: ClassVar[bool] = True

    keys: tuple[str, ...]
    predicate: Scalar | None = None

    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def label(self) -> str:
        condition = f": {self.predicate}" if self.predicate is not None else ""
        return f"by {', '.join(self.keys)}{condition}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.keys, "|", *(() if self.predicate is None else (self.predicate.digest,)))

    @property
    def expressions(self) -> tuple[Scalar, ...]:
        return () if self.predicate is None else (self.predicate,)

    def with_expressions(self, expressions: Sequence[Scalar]) -> Self:
        return replace(self, predicate=expressions[0]) if expressions else self

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | frozenset(self.keys).union(*map(columns_of, self.expressions))

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.keys

    @cached_property
    def changes(self) -> ModifyKindSet:
        deletes = self.input.changes & ModifyKindSet.DELETES
        return ModifyKindSet.UPDATES | (
            ModifyKindSet.DELETES if self.predicate is not None else deletes
        )

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset(self.keys),)


@dataclass(frozen=True)
class DropUpdateBefore(OneInput):
    """Drops -U: the operation above knows a row by its key."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def parameters(self) -> tuple[str, ...]:
        return ()

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs

    def with_member(self, numbers: Sequence[Schema]) -> LogicalPlan | None:
        return self

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


@dataclass(frozen=True)
class UpsertMaterialize(OneInput, Stateful):
    """Keeps one row for each primary key of the sink's table (Flink's SinkUpsertMaterializer).

    `keys` is the primary key; rows of the input are told apart by `rows_by` (none: by all columns).
    `conflict` says which row of a key counts. DEDUPLICATE: the last one, and the one before when it
    is deleted. NOTHING: the first one. ERROR: a second one is an error. The latter two wait for the
    watermark, so that rows that were added and deleted before it do not count."""

    reads_all_columns: ClassVar[bool] = True

    keys: tuple[str, ...]
    rows_by: tuple[str, ...]
    conflict: str = "DEDUPLICATE"

    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def label(self) -> str:
        return (
            f"by {', '.join(self.keys)}, rows by {', '.join(self.rows_by) or 'all columns'}:"
            f" {self.conflict}"
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.keys, "|", *self.rows_by, "|", self.conflict)

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.schema.names)

    def exchange(self, port: int) -> tuple[str, ...]:
        return self.keys

    @cached_property
    def changes(self) -> ModifyKindSet:
        return (
            ModifyKindSet.ALL
            if self.input.changes or self.conflict == "DEDUPLICATE"
            else ModifyKindSet.NONE
        )

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return (frozenset(self.keys),)


@dataclass(frozen=True)
class ToChangelog(OneInput):
    """Emits every change as an insert-only row: a code in the column `op`, then the input's
    columns.

    `codes` maps kinds (+I, -U, +U, -D) to codes; a change whose kind has none is dropped."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    op: Column
    codes: tuple[tuple[str, str], ...]

    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {n: n for n in self.input.schema.names}

    @cached_property
    def schema(self) -> Schema:
        return Schema((self.op, *self.input.schema))

    @property
    def label(self) -> str:
        return f"{self.op.name}: {', '.join(f'{kind} {code}' for kind, code in self.codes)}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.op.name, str(self.op.type), *(part for code in self.codes for part in code))

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs - {self.op.name}

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE


@dataclass(frozen=True)
class FromChangelog(OneInput):
    """Emits every row as the change that the code in its column `op` names, without that column.

    `kinds` maps codes to kinds. A row with another code, or NULL, is an error."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False

    op: str
    kinds: tuple[tuple[str, str], ...]

    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(c for c in self.input.schema if c.name != self.op))

    @property
    def label(self) -> str:
        return f"{self.op}: {', '.join(f'{code} {kind}' for code, kind in self.kinds)}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.op, *(part for kind in self.kinds for part in kind))

    def reads(self, outputs: Names, port: int) -> Names:
        return outputs | {self.op}

    @cached_property
    def changes(self) -> ModifyKindSet:
        found = {kind for _, kind in self.kinds}
        updates = ModifyKindSet.UPDATES if "+U" in found else ModifyKindSet.NONE
        return updates | (ModifyKindSet.DELETES if "-D" in found else ModifyKindSet.NONE)
