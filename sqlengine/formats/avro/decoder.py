"""Decoding records of Avro's binary form, each one datum without a schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from parser.errors import UnsupportedError
from parser.types import Schema
from sqlengine.formats.avro.cursor import Cursor, Failures, IntArray
from sqlengine.formats.avro.readers import Fields
from sqlengine.formats.avro.schemas import AvroType, BadSchema, parse_schema
from sqlengine.formats.base import BadRecord, Decoded

# Up to so many records fastavro, one by one, is faster.
_FEW: Final = 128
# A number may have more bytes than any has: fastavro makes another one of it.
_LONG: Final = re.compile(rb"[\x80-\xff]{10}")


class BadDatum(Exception):
    """A record that is no datum of its schema; the text says why."""


def library() -> Any:
    """Returns fastavro, which is loaded where a table needs it. UnsupportedError where it is not
    installed."""
    try:
        import fastavro
    except ImportError:
        raise UnsupportedError(
            "format 'avro' needs the package fastavro", hint="pip install 'sqlengine[avro]'"
        ) from None
    return fastavro


def plain_schema(text: str) -> object:
    """Returns the schema for fastavro, without logical types: values are what is written."""
    known = library()
    try:
        parsed: object = known.parse_schema(_without_logical(msgspec.json.decode(text)))
    except (known.schema.SchemaParseException, known.schema.UnknownType, ValueError) as error:
        raise BadSchema(f"the schema is none: {error}") from None
    return parsed


def _without_logical(schema: object) -> object:
    if isinstance(schema, list):
        return [_without_logical(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k not in ("logicalType", "default", "aliases")}
    nested = ("type", "items", "values", "fields")
    return {k: _without_logical(v) if k in nested else v for k, v in kept.items()}


class BinaryDecoder:
    """Reads records that were written with one schema as columns of a table.

    Many are read side by side, field by field; few, and those with thousands of elements, by
    fastavro. Both ways give equal rows."""

    def __init__(self, schema: Schema, text: str) -> None:
        """BadSchema where records of this schema cannot be rows of the table."""
        self._types = [c.type for c in schema]
        self.written: AvroType = parse_schema(text)
        self._fields = Fields("", self.written, {c.name: c.type for c in schema})
        self._plain = plain_schema(text)

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`."""
        if len(records) <= _FEW:
            few = records.to_pylist()
            if not _LONG.search(b"".join(few)):
                return self.decode_each(few, self._datum)
        cursor = Cursor(records)
        columns = self._fields.read(cursor, np.arange(len(records)))
        cursor.finish()
        if cursor.slow.any():
            slow = np.flatnonzero(cursor.slow)
            texts = records.take(pa.array(slow)).to_pylist()
            read, failures = self._one_by_one(texts, self._datum)
            for row, lane in enumerate(slow.tolist()):
                cursor.failures.reasons.pop(lane, None)
                if row in failures.reasons:
                    cursor.failures.reasons[lane] = failures.reasons[row]
            columns = _merged(columns, read, slow)
        return _decoded(columns, cursor.failures, len(records))

    def decode_each(self, records: Sequence[bytes], read: Callable[[bytes], object]) -> Decoded:
        """Decodes records by a function that gives each as fastavro has it, or raises BadDatum."""
        return _decoded(*self._one_by_one(records, read), len(records))

    def columns_of(self, values: Sequence[object]) -> tuple[list[pa.Array], Failures]:
        """Makes the columns of values that fastavro has read; those that fail are zeros."""
        failures = Failures()
        return self._fields.of(values, failures, np.arange(len(values))), failures

    def _one_by_one(
        self, records: Sequence[bytes], read: Callable[[bytes], object]
    ) -> tuple[list[pa.Array], Failures]:
        failures = Failures()
        values: list[object] = []
        good: list[int] = []
        for row, record in enumerate(records):
            try:
                values.append(read(record))
                good.append(row)
            except BadDatum as error:
                failures.reasons[row] = str(error)
        lanes = np.array(good, np.int64)
        columns = self._fields.of(values, failures, lanes)
        if len(good) == len(records):
            return columns, failures
        at = np.full(len(records), len(good))
        at[lanes] = np.arange(len(good))
        ended = [pa.concat_arrays([c, pa.nulls(1, c.type)]) for c in columns]
        return [c.take(pa.array(at)) for c in ended], failures

    def _datum(self, record: bytes) -> object:
        stream = BytesIO(record)
        value = read_datum(stream, self._plain)
        if left := len(record) - stream.tell():
            raise BadDatum(f"{left} bytes are left behind its last field")
        return value


def read_datum(stream: BytesIO, schema: object) -> object:
    """Reads one datum, in fastavro's form. BadDatum where there is none."""
    try:
        value: object = library().schemaless_reader(stream, schema, None)
    except UnicodeDecodeError:
        raise BadDatum("a text is not UTF-8") from None
    except EOFError:
        raise BadDatum("it ends too early") from None
    except (ValueError, IndexError, OverflowError, MemoryError, KeyError, TypeError) as error:
        raise BadDatum(f"it is no datum of the schema ({type(error).__name__})") from None
    return value


def _decoded(columns: Sequence[pa.Array], failures: Failures, count: int) -> Decoded:
    """Returns the rows without those that failed."""
    if not failures.reasons:
        return Decoded(tuple(columns), count)
    bad = tuple(BadRecord(r, failures.reasons[r]) for r in sorted(failures.reasons))
    good: IntArray = np.setdiff1d(np.arange(count), [b.row for b in bad])
    index = pa.array(good)
    return Decoded(tuple(c.take(index) for c in columns), len(good), good, bad)


def _merged(
    columns: Sequence[pa.Array], others: Sequence[pa.Array], rows: IntArray
) -> list[pa.Array]:
    """Returns the columns with those of `others` in these rows."""
    count = len(columns[0]) if columns else 0
    at = np.arange(count)
    at[rows] = count + np.arange(len(rows))
    index = pa.array(at)
    return [pa.concat_arrays([a, b]).take(index) for a, b in zip(columns, others, strict=True)]
