"""Rows of a result as Arrow has them, with the SQL types of their columns.

What Arrow does not tell apart, such as an INTERVAL and the number that holds it, is known by `sql`
in the metadata of a field, at any depth."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import INT, DataType, Root, Schema, TimeAttribute
from sqlengine.batch import Batch, RowKind

# Rows of a page, at most: a page of some MB is sent at once.
ARROW_ROWS: Final = 65_536
# The first column of a result whose rows may be updated or deleted: +I, -U, +U or -D.
OP: Final = "op"
SQL_TYPE: Final = "sql"
_OPS: Final = pa.array([kind.short for kind in RowKind])


def arrow_schema(columns: Schema, *, changes: bool) -> pa.Schema:
    """Returns the Arrow schema of a result; with `changes` its first column is `op`."""
    fields = [_field(c.name, c.type) for c in columns]
    return pa.schema([pa.field(OP, pa.string()), *fields] if changes else fields)


def to_record_batch(batch: Batch, schema: pa.Schema, *, changes: bool) -> pa.RecordBatch:
    """Returns rows in the form of `arrow_schema`."""
    columns = list(batch.columns)
    if changes:
        kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
        columns.insert(0, _OPS.take(pa.array(kinds)))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _field(name: str, kind: DataType) -> pa.Field:
    text = str(kind.as_attribute(TimeAttribute.NONE))
    return pa.field(name, _type(kind), metadata={SQL_TYPE: text})


def _type(kind: DataType) -> pa.DataType:
    """Returns the type of columns, with the SQL types of what is in them."""
    match kind.root:
        case Root.ARRAY:
            return pa.list_(_field("item", kind.children[0]))
        case Root.MAP | Root.MULTISET:
            value = kind.children[1] if kind.root is Root.MAP else INT
            key = _field("key", kind.children[0]).with_nullable(False)
            return pa.map_(key, _field("value", value))
        case Root.ROW | Root.STRUCTURED:
            return pa.struct(list(map(_field, kind.names, kind.children)))
    return kind.arrow
