"""Tables as CREATE TABLE declares them. The catalog and the nodes of plans both build on this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from parser.types import Column, DataType, Schema, TimeAttribute
from planner.logical.change_kinds import ModifyKindSet
from planner.scalar import Scalar

# Catalog, database and name.
Identifier = tuple[str, str, str]


@dataclass(frozen=True)
class Watermark:
    """A table's watermark: the greatest value of `expression` so far, behind which rows are late by
    their `column`. `text`: the expression as SQL."""

    column: str
    expression: Scalar
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class MetadataColumn:
    """A column that the connector fills by its metadata `key`; a `virtual` one is not written.

    The type of `column` is the one in which the connector gives and takes values. Where that is not
    the declared one, which the table's schema has, plans cast."""

    column: Column
    key: str
    virtual: bool


# Prefix of the metadata key of a partition column, whose values are in paths and not in records.
PARTITION: Final = "partition."


@dataclass(frozen=True)
class Table:
    """A table as CREATE TABLE declares it.

    `schema`: the columns that a query sees, in the order of the declaration; `physical`: the
    columns of the records; `computed`: pairs of name and expression over physical and metadata
    columns, with their SQL in `texts`; `changes`: the changes that its rows may be; `queried`: its
    source asks for the rows and columns that a plan wants; `by_key`: it can be asked for the rows
    of keys; `definition`: the whole statement as
    SQL, with full types and without LIKE, for LIKE and ALTER."""

    name: Identifier
    schema: Schema
    physical: Schema
    options: Mapping[str, str]
    metadata: tuple[MetadataColumn, ...] = ()
    computed: tuple[tuple[str, Scalar], ...] = ()
    watermark: Watermark | None = None
    primary_key: tuple[str, ...] = ()
    temporary: bool = False
    changes: ModifyKindSet = ModifyKindSet.NONE
    partition_keys: tuple[str, ...] = ()
    queried: bool = False
    by_key: bool = False
    texts: Mapping[str, str] = field(default_factory=dict, compare=False)
    definition: str = field(default="", compare=False)

    @property
    def declared_columns(self) -> tuple[Column, ...]:
        """The physical and the metadata columns, in their declared types."""
        given = (*self.physical, *(m.column for m in self.metadata))
        known = self.schema.names
        types = (self.schema.type(c.name) if c.name in known else c.type for c in given)
        none = TimeAttribute.NONE
        return tuple(
            Column(c.name, t.as_attribute(none)) for c, t in zip(given, types, strict=True)
        )

    def written_type(self, name: str) -> DataType:
        """Returns the type in which a column is written."""
        taken = (m.column.type for m in self.metadata if m.column.name == name)
        return next(taken, self.schema.type(name))

    @property
    def display(self) -> str:
        return self.name[2]

    @property
    def connector(self) -> str:
        return self.options["connector"]
