"""The constraints that the types of a table's columns put on the rows written to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from parser.types import MAX_LENGTH, Column, DataType, Root
from planner.logical.node import (
    Names,
    OneInput,
    after_only_of_inputs,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
)

_COLLECTIONS = (Root.ARRAY, Root.MAP, Root.MULTISET)
_LENGTHS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)


@dataclass(frozen=True)
class Constrain(OneInput):
    """Enforces the types of `columns` on rows before they are written (Flink's ConstraintEnforcer).

    `lengths` of texts and bytes: IGNORE, TRIM_PAD (they are cut or filled up) or ERROR. `nested`:
    IGNORE, ROWS or ROWS_AND_COLLECTIONS, how deep fields and elements are checked. `nulls`: NULL in
    a NOT NULL column is an ERROR, or the row is dropped (DROP)."""

    forwards_row_time: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = False
    reads_all_columns: ClassVar[bool] = True

    columns: tuple[Column, ...]
    lengths: str = "IGNORE"
    nested: str = "IGNORE"
    nulls: str = "ERROR"

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = no_columns  # values may be cut or filled up
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def label(self) -> str:
        return f"lengths {self.lengths}, nested {self.nested}, nulls {self.nulls}"

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.lengths, self.nested, self.nulls, *map(str, self.columns))

    def reads(self, outputs: Names, port: int) -> Names:
        return frozenset(self.schema.names)

    @cached_property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.input.upsert_keys


def parts(kind: DataType, nested: str) -> Iterator[DataType]:
    """The type and, as far as `nested` says, those of its fields and elements."""
    yield kind
    if nested == "IGNORE" or (nested == "ROWS" and kind.root in _COLLECTIONS):
        return
    for child in kind.children:
        yield from parts(child, nested)


def has_length(kind: DataType) -> bool:
    """True if values of the type have a length to keep."""
    return kind.root in _LENGTHS and kind.length < MAX_LENGTH
