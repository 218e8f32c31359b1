"""Rows to JSON records as Flink writes them: names in the order of the columns, NULL as null, times in Flink's texts."""

from __future__ import annotations

import io
from dataclasses import dataclass

import arro3.io
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import UnsupportedError
from parser.types import DataType, Root, Schema
from sqlengine.batch import Batch
from sqlengine.formats import times
from sqlengine.formats.lines import split_lines
from sqlengine.formats.texts import java_texts

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

_FLOATS = (Root.FLOAT, Root.DOUBLE)
_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


@dataclass(frozen=True)
class Writing:
    """How to write: `standard` of timestamps, and whether NULL columns and fields are left out."""

    standard: str = times.SQL
    skip_nulls: bool = False


class JsonEncoder:
    def __init__(self, schema: Schema, writing: Writing) -> None:
        self._schema = schema
        self._writing = writing
        self._floats = [i for i, c in enumerate(schema) if c.type.root in _FLOATS]
        self._has_map = any(_holds_map(c.type) for c in schema)
        for column in schema:
            _check(column.type)

    def encode(self, batch: Batch) -> pa.Array:
        """One record per row; row kinds are not written."""
        if batch.num_rows == 0:
            return pa.array([], pa.binary())
        columns = [_written(c, f.type, self._writing) for c, f in zip(batch.columns, self._schema, strict=True)]
        groups = self._not_numbers(batch)
        if groups is None:
            return self._write(columns, batch.num_rows)
        parts, rows = [], []
        for pattern in np.unique(groups):
            chosen = np.flatnonzero(groups == pattern)
            texts = [i for k, i in enumerate(self._floats) if int(pattern) >> k & 1]
            parts.append(self._write(_with_texts(columns, texts, pa.array(chosen)), len(chosen)))
            rows.append(chosen)
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))

    def _not_numbers(self, batch: Batch) -> npt.NDArray[np.object_] | None:
        """Per row the set of columns, as bits, that hold NaN or an infinity: JSON has them as texts only. None when
        no row has any."""
        found: npt.NDArray[np.object_] | None = None
        for k, i in enumerate(self._floats):
            finite = pc.is_finite(batch.columns[i])
            if pc.all(finite).as_py() is False:
                bits = np.where(np.asarray(finite.fill_null(True)), 0, 1 << k).astype(np.object_)
                found = bits if found is None else found | bits
        return found

    def _write(self, columns: list[pa.Array], num_rows: int) -> pa.Array:
        """Arrays must have the names and number of the schema; without columns every record is {}."""
        if not columns:
            return pa.array([b"{}"] * num_rows, pa.binary())
        batch = pa.record_batch(columns, names=list(self._schema.names))
        out = io.BytesIO()
        skips = self._writing.skip_nulls
        arro3.io.write_ndjson(batch, out, explicit_nulls=not skips or self._has_map)
        records = split_lines(out.getvalue())[0]
        return _without_nulls(records) if skips and self._has_map else records


def _without_nulls(records: pa.Array) -> pa.Array:
    """Leaves the record's own NULL fields out. arrow-rs would leave a MAP's NULL values out, too, which are data."""
    kept = [{k: v for k, v in _fields.decode(r).items() if bytes(v) != b"null"} for r in records.to_pylist()]
    return pa.array([msgspec.json.encode(fields) for fields in kept], pa.binary())


def _with_texts(columns: list[pa.Array], texts: list[int], rows: pa.Array) -> list[pa.Array]:
    """The columns at `rows`; those of `texts`, which hold no numbers there, as Java's names for them."""
    taken = [c.take(rows) for c in columns]
    for i in texts:
        nan, positive = pc.is_nan(taken[i]), pc.greater(taken[i], 0)
        taken[i] = pc.if_else(nan, "NaN", pc.if_else(positive, "Infinity", "-Infinity"))
    return taken


def _holds_map(kind: DataType) -> bool:
    return kind.root in (Root.MAP, Root.MULTISET) or any(map(_holds_map, kind.children))


def _check(kind: DataType) -> None:
    """UnsupportedError for a type that JSON cannot hold."""
    if kind.root in (Root.MAP, Root.MULTISET) and not kind.children[0].is_string:
        raise UnsupportedError(f"JSON cannot hold {kind}", detail="the keys of a JSON object are strings")
    for child in kind.children:
        _check(child)


def _written(column: pa.Array, kind: DataType, writing: Writing) -> pa.Array:
    """The column in types that arrow-rs writes as Flink does."""
    if kind.root in _TIMES or kind.is_binary:
        return java_texts(column, kind, writing.standard)
    if kind.children:
        return _nested(column if column.offset == 0 else pa.concat_arrays([column, column[:0]]), kind, writing)
    return column


def _nested(column: pa.Array, kind: DataType, writing: Writing) -> pa.Array:
    mask = column.is_null() if column.null_count else None
    if kind.root is Root.ARRAY:
        values = _written(column.values, kind.children[0], writing)
        return pa.ListArray.from_arrays(column.offsets, values, mask=mask)
    if kind.root is Root.ROW:
        fields = [_written(column.field(i), child, writing) for i, child in enumerate(kind.children)]
        return pa.StructArray.from_arrays(fields, names=list(kind.names), mask=mask)
    value = DataType(Root.INT) if kind.root is Root.MULTISET else kind.children[1]
    items = _written(column.items, value, writing)
    return pa.MapArray.from_arrays(column.offsets, column.keys, items, mask=mask)
