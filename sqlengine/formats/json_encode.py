"""Rows to JSON records as Flink writes them: names in the order of the columns, NULL as null, times
in Flink's texts, numbers in Java's."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass

import arro3.io
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import UnsupportedError
from parser.types import INTEGERS, DataType, Root, Schema
from sqlengine.batch import Batch
from sqlengine.formats import times
from sqlengine.formats.base import of_column
from sqlengine.formats.lines import split_lines
from sqlengine.formats.texts import java_texts, plain_texts, written_plainly

_FLOATS = (Root.FLOAT, Root.DOUBLE)
_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)

# Up to so many rows are written one by one, if all their columns are texts or of these types.
_FEW = 4
_PLAIN = (Root.BOOLEAN, *INTEGERS)

# A number that arrow-rs would write otherwise goes through it as a text between two of these, which
# are then taken away.
_MARKS = "\1\2\3\4\5\6\7"
# Jackson writes these escapes in capitals, and characters beyond the first plane as two escapes.
_ESCAPE = re.compile(rb"\\\\|\\u00[01][a-f]")
_BEYOND = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")


@dataclass(frozen=True)
class Writing:
    """The options of writing: `standard` of timestamps, whether NULL columns and fields are left
    out, and whether a DECIMAL has the digits of its scale and never an exponent."""

    standard: str = times.SQL
    skip_nulls: bool = False
    plain: bool = False


class JsonEncoder:
    def __init__(self, schema: Schema, writing: Writing) -> None:
        self._schema = schema
        self._writing = writing
        self._prune = (
            _pruner(schema)
            if writing.skip_nulls and any(_holds(c.type, _MAPS) for c in schema)
            else None
        )
        kinds = (column.type for column in schema)
        self._plain = all(k.is_string or k.root in _PLAIN for k in kinds) and not writing.skip_nulls
        for column in schema:
            with of_column(column.name):
                _check(column.type)

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`. Row kinds are not written."""
        if batch.num_rows == 0:
            return pa.array([], pa.binary())
        if not self._schema.columns:
            return pa.array([b"{}"] * batch.num_rows, pa.binary())
        if self._plain and batch.num_rows <= _FEW and (few := self._few(batch)) is not None:
            return few
        lines = next(text for mark in _MARKS if (text := self._write(batch, mark)) is not None)
        if self._prune is not None:
            lines = b"".join(self._prune(line) + b"\n" for line in lines.split(b"\n")[:-1])
        return split_lines(_as_jackson(lines))[0]

    def _few(self, batch: Batch) -> pa.Array | None:
        """Writes few rows one by one, which then takes a fifth of the time that arrow-rs and all
        that is around it take. None where a text is none."""
        try:
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            named = [dict(zip(self._schema.names, row, strict=True)) for row in rows]
        except UnicodeDecodeError:
            return None
        return pa.array([_as_jackson(msgspec.json.encode(row)) for row in named], pa.binary())

    def _write(self, batch: Batch, mark: str) -> bytes | None:
        """The records as lines; None where a text of the rows has the mark, too."""
        numbers = _Numbers(mark, self._writing)
        columns = [
            numbers.written(c, f.type) for c, f in zip(batch.columns, self._schema, strict=True)
        ]
        if numbers.ambiguous:
            return None
        out = io.BytesIO()
        rows = pa.record_batch(columns, names=list(self._schema.names))
        arro3.io.write_ndjson(
            rows, out, explicit_nulls=not self._writing.skip_nulls or self._prune is not None
        )
        lines = out.getvalue()
        if not numbers.marked:
            return lines
        escaped = b"\\u%04x" % ord(mark)
        return lines.replace(b'"' + escaped, b"").replace(escaped + b'"', b"")


def _as_jackson(lines: bytes) -> bytes:
    if b"\\" in lines and b"\\u00" in lines:
        lines = _ESCAPE.sub(lambda found: found[0][:4] + found[0][4:].upper(), lines)
    if not lines.isascii():
        lines = _BEYOND.sub(_as_escapes, lines)
    return lines


def _as_escapes(match: re.Match[bytes]) -> bytes:
    pair = match[0].decode().encode("utf-16-be")
    return b"\\u%02X%02X\\u%02X%02X" % tuple(pair)


_NUMBERS = (*_FLOATS, Root.DECIMAL)
_MAPS = (Root.MAP, Root.MULTISET)
_WRITABLE = frozenset(
    {
        Root.BOOLEAN,
        *INTEGERS,
        *_NUMBERS,
        *_TIMES,
        Root.CHAR,
        Root.VARCHAR,
        Root.BINARY,
        Root.VARBINARY,
        Root.NULL,
    }
)


def _holds(kind: DataType, roots: tuple[Root, ...]) -> bool:
    return kind.root in roots or any(_holds(child, roots) for child in kind.children)


def _pruner(schema: Schema) -> Callable[[bytes], bytes]:
    """Leaves NULL fields of the record and of rows in it out. arrow-rs would leave a MAP's NULL
    values out, too, which are data."""
    record = _pruned(DataType(Root.ROW, names=schema.names, children=tuple(c.type for c in schema)))

    def prune(line: bytes) -> bytes:
        return msgspec.json.encode(record(msgspec.Raw(line)))

    return prune


_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])


def _pruned(kind: DataType) -> Callable[[msgspec.Raw], object]:
    """The value of `kind` without the NULL fields of its rows."""
    if not _holds(kind, (Root.ROW,)):
        return lambda raw: raw
    parts = [_pruned(child) for child in kind.children]
    by_name = dict(zip(kind.names, parts, strict=False))

    def row(raw: msgspec.Raw) -> object:
        return {n: by_name[n](v) for n, v in _object.decode(raw).items() if bytes(v) != b"null"}

    def array(raw: msgspec.Raw) -> object:
        return [parts[0](v) for v in _array.decode(raw)]

    def mapping(raw: msgspec.Raw) -> object:
        return {n: parts[-1](v) for n, v in _object.decode(raw).items()}

    inner = row if kind.root is Root.ROW else array if kind.root is Root.ARRAY else mapping
    return lambda raw: raw if bytes(raw) == b"null" else inner(raw)


def _check(kind: DataType) -> None:
    """UnsupportedError for a type that JSON cannot hold."""
    if kind.root in _MAPS and not kind.children[0].is_string:
        raise UnsupportedError(
            f"JSON cannot hold {kind}", detail="the keys of a JSON object are strings"
        )
    if not (kind.children or kind.root in _WRITABLE or kind.root is Root.ROW):
        raise UnsupportedError(f"JSON cannot hold {kind}")
    for child in kind.children:
        _check(child)


class _Numbers:
    """Columns in types that arrow-rs writes as Flink does; `marked`: some numbers have marks around
    them."""

    def __init__(self, mark: str, writing: Writing) -> None:
        self.marked = False
        self._texts: list[pa.Array] = []
        self._mark = mark
        self._writing = writing

    @property
    def ambiguous(self) -> bool:
        """True if a text of the rows contains the mark, too."""
        return self.marked and any(
            pc.any(pc.match_substring(t, self._mark)).as_py() for t in self._texts
        )

    def written(self, column: pa.Array, kind: DataType) -> pa.Array:
        if kind.root in _TIMES or kind.is_binary:
            return java_texts(column, kind, self._writing.standard)
        if kind.root is Root.DECIMAL:
            return self._in_marks(
                plain_texts(column) if self._writing.plain else java_texts(column, kind)
            )
        if kind.root in _FLOATS and not written_plainly(column):
            texts = java_texts(column, kind)
            return pc.if_else(pc.is_finite(column), self._in_marks(texts), texts)
        if kind.is_string:
            self._texts.append(column)
        if kind.children:
            return self._nested(
                column if column.offset == 0 else pa.concat_arrays([column, column[:0]]), kind
            )
        return column

    def _in_marks(self, texts: pa.StringArray) -> pa.StringArray:
        self.marked = True
        return pc.binary_join_element_wise(self._mark, texts, self._mark, "")

    def _nested(self, column: pa.Array, kind: DataType) -> pa.Array:
        mask = column.is_null() if column.null_count else None
        if kind.root is Root.ARRAY:
            values = self.written(column.values, kind.children[0])
            return pa.ListArray.from_arrays(column.offsets, values, mask=mask)
        if kind.root is Root.ROW:
            fields = [self.written(column.field(i), child) for i, child in enumerate(kind.children)]
            return pa.StructArray.from_arrays(fields, names=list(kind.names), mask=mask)
        value = DataType(Root.INT) if kind.root is Root.MULTISET else kind.children[1]
        items = self.written(column.items, value)
        self._texts.append(column.keys)
        return pa.MapArray.from_arrays(column.offsets, column.keys, items, mask=mask)
