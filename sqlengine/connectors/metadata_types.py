"""The types of METADATA columns: those that connectors and formats have, and those that tables
declare."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from parser.errors import ColumnError, UnsupportedColumn
from parser.types import Column, DataType, Root
from parser.writer.names import name as quoted
from planner.capabilities import FormatUse
from planner.catalog import PARTITION, MetadataColumn, Table
from sqlengine.connectors.base import Connector
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.registry import VALUE, format_of
from udf.casts.cast import instead_of_cast
from udf.casts.coercion import can_cast


def check_metadata(declared: MetadataColumn, connector: Connector, table: Table) -> None:
    """Raises ColumnError where neither the connector nor the format of the table has the key, or
    its values cannot be cast to the declared type."""
    can = connector.capabilities
    if can.keeps_rows or (can.partitioning and declared.key.startswith(PARTITION)):
        return
    known, name, kind = _own_types(connector, table), declared.column.name, declared.column.type
    if declared.key not in known:
        hint = did_you_mean(declared.key, known) or "keys: " + (", ".join(sorted(known)) or "none")
        message = f"connector '{connector.name}' has no metadata '{declared.key}'"
        raise ColumnError(message, hint=hint, subject=name)
    own = known[declared.key]
    if not can_cast(own, kind):
        instead = instead_of_cast(own, kind)
        compute = instead and f", and in a computed column {instead.format(quoted(name))}"
        raise ColumnError(
            f"metadata '{declared.key}' of connector '{connector.name}' is {own.plain}, which"
            f" cannot be cast to {kind.plain}",
            hint=f"declare it {own.plain}{compute or ''}",
            subject=name,
        )


def check_written(table: Table, keys: Collection[str] = ()) -> None:
    """Raises UnsupportedColumn for metadata of other `keys` that would be written."""
    for column in table.metadata:
        if not column.virtual and column.key not in keys and not column.key.startswith(PARTITION):
            raise not_written(column)


def not_written(column: MetadataColumn) -> UnsupportedColumn:
    """Returns the error for metadata that no record can be given."""
    name = column.column.name
    what = "" if column.key == name else f" ('{column.key}')"
    return UnsupportedColumn(
        f"metadata column '{name}'{what} cannot be written",
        hint="declare it METADATA VIRTUAL",
        subject=name,
    )


def with_own_types(table: Table, connector: Connector) -> Table:
    """Returns the table with its metadata in the types in which the connector, or the format, has
    them: plans cast to the declared ones, and back. Where there is no cast nothing changes."""
    if not table.metadata:
        return table
    known = {} if connector.capabilities.keeps_rows else _own_types(connector, table)
    types = {c.name: c.type for c in table.declared_columns}
    metadata = (
        replace(m, column=Column(m.column.name, _given(types[m.column.name], known.get(m.key))))
        for m in table.metadata
    )
    return replace(table, metadata=tuple(metadata))


def _given(declared: DataType, own: DataType | None) -> DataType:
    """Returns the type in which a connector gives metadata of its `own` type: all can widen it."""
    if own is None or declared.same_as(own) or not can_cast(own, declared):
        return declared
    finer = own.is_timestamp and declared.root is own.root and declared.precision >= own.precision
    if finer or (own.is_integer and declared.root is Root.BIGINT):
        return declared
    return own.with_nullable(declared.nullable)


def _own_types(connector: Connector, table: Table) -> dict[str, DataType]:
    known = dict(connector.metadata)
    if connector.capabilities.format is not FormatUse.NONE:
        format_, _ = format_of(table)
        known |= {VALUE + key: kind for key, kind in format_.metadata.items()}
    return known
