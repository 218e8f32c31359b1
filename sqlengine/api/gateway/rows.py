"""Rows as Flink's gateway writes them: values in Flink's JSON format, or as the texts that its SQL
client shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, STRING, Column, DataType, Root, Schema
from sqlengine.batch import Batch, RowKind
from sqlengine.formats import times
from sqlengine.formats.json_encode import JsonEncoder, Writing
from udf.casts.nested import NESTED, nested_text
from udf.casts.texts import to_text

JSON: Final = "JSON"
PLAIN_TEXT: Final = "PLAIN_TEXT"
_KINDS: Final = {
    RowKind.INSERT: b"INSERT",
    RowKind.UPDATE_BEFORE: b"UPDATE_BEFORE",
    RowKind.UPDATE_AFTER: b"UPDATE_AFTER",
    RowKind.DELETE: b"DELETE",
}
# A value stands between these in the record of one column.
_BEFORE: Final = len(b'{"v":')
# How JSON holds what has no form of its own there.
_AS: Final = {
    Root.INTERVAL_YEAR_MONTH: BIGINT,
    Root.INTERVAL_DAY_TIME: BIGINT,
    Root.VARIANT: STRING,
    Root.NULL: INT,
}


def rows_json(batch: Batch, row_format: str, zone: str) -> bytes:
    """Returns rows as JSON objects with commas between them. `zone`: the time zone of texts."""
    columns = [
        _texts(column, field.type, zone)
        if row_format == PLAIN_TEXT
        else _values(column, field.type)
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    fields = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
    return b",".join(
        b'{"kind":"%s","fields":[%s]}' % (kind, b",".join(row))
        for kind, row in zip(_kinds(batch), fields, strict=True)
    )


def _kinds(batch: Batch) -> Iterator[bytes]:
    kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
    return (_KINDS[RowKind(kind)] for kind in kinds.tolist())


def _values(column: pa.Array, kind: DataType) -> Sequence[bytes]:
    """Returns values as Flink's JSON format has them, with ISO 8601 times."""
    held = _held(kind)
    if kind.root is Root.NULL:
        return [b"null"] * len(column)
    schema = Schema((Column("v", held),))
    encoder = JsonEncoder(schema, Writing(standard=times.ISO))
    records = encoder.encode(Batch(schema, (column,), len(column)))
    return [record[_BEFORE:-1] for record in records.to_pylist()]


def _held(kind: DataType) -> DataType:
    """Returns the type whose JSON form a type has; Arrow holds the values of both alike."""
    if kind.children:
        root = Root.ROW if kind.root is Root.STRUCTURED else kind.root
        return replace(kind, root=root, children=tuple(map(_held, kind.children)))
    return _AS.get(kind.root, kind)


def _texts(column: pa.Array, kind: DataType, zone: str) -> Sequence[bytes]:
    """Returns values as JSON texts, in the form in which the SQL client prints them."""
    texts = _printed(column, kind, zone).to_pylist()
    return [b"null" if t is None else json.dumps(t, ensure_ascii=False).encode() for t in texts]


def _printed(column: pa.Array, kind: DataType, zone: str) -> pa.Array:
    if kind.is_binary:
        values = column.to_pylist()
        return pa.array([None if v is None else f"x'{v.hex()}'" for v in values], pa.string())
    if kind.root in NESTED:
        return nested_text(column, kind, lambda values, part: _printed(values, part, zone))
    return to_text(column, kind, zone)
