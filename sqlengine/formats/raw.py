"""The format 'raw': a record is the value of the table's only column."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from parser.errors import OptionError, UnsupportedColumn
from parser.types import DataType, Root, Schema
from sqlengine.batch import Batch
from sqlengine.formats.base import BadRecord, Decoded, Decoder, Encoder, Format, Option
from sqlengine.formats.options import choice, parse_options
from sqlengine.formats.times import text_buffers

_BIG, _LITTLE = "big-endian", "little-endian"
_NUMBERS = {
    Root.BOOLEAN: "u1",
    Root.TINYINT: "i1",
    Root.SMALLINT: "i2",
    Root.INT: "i4",
    Root.BIGINT: "i8",
    Root.FLOAT: "f4",
    Root.DOUBLE: "f8",
}


def charset(text: str) -> str:
    try:
        return codecs.lookup(text.strip()).name
    except LookupError:
        raise ValueError("expected the name of a character set such as 'UTF-8'") from None


class RawFormat(Format):
    name: ClassVar[str] = "raw"
    options: ClassVar[Mapping[str, Option]] = {
        "charset": Option(charset, default="UTF-8", doc="of STRING columns"),
        "endianness": Option(choice(_BIG, _LITTLE), default=_BIG, doc="of numbers"),
    }

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        values = parse_options(options, self.options, "format 'raw'")
        kind = _only(schema)
        if columns is not None and not columns:
            return _Nothing()
        if kind.root in _NUMBERS:
            return _NumberCodec(kind, values["endianness"] == _BIG)
        return _TextCodec(kind, str(values["charset"]))

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        values = parse_options(options, self.options, "format 'raw'")
        kind = _only(schema)
        if kind.root in _NUMBERS:
            return _NumberCodec(kind, values["endianness"] == _BIG)
        return _TextCodec(kind, str(values["charset"]))


def _only(schema: Schema) -> DataType:
    if len(schema) != 1:
        raise OptionError(
            f"format 'raw' needs a table of one column, not {len(schema)}",
            hint="declare one column, or another format, such as 'json'",
            subject="format",
        )
    column = schema.columns[0]
    kind = column.type
    if kind.root not in _NUMBERS and not kind.is_string and not kind.is_binary:
        raise UnsupportedColumn(
            f"format 'raw' cannot hold {kind}, in column '{column.name}'",
            hint="it holds a text, bytes, a number or a BOOLEAN",
            subject=column.name,
        )
    return kind


class _Nothing:
    """Decodes no column, since none is read."""

    def decode(self, records: pa.Array) -> Decoded:
        return Decoded((), len(records))


class _TextCodec:
    """STRING in a character set, and BYTES as they are. NULL is written as an empty record."""

    def __init__(self, kind: DataType, charset: str) -> None:
        self._kind = kind
        self._charset = charset

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. Bytes that are not of the character set become U+FFFD, as in Flink."""
        if self._kind.is_binary:
            return Decoded((records,), len(records))
        try:
            if self._charset == "utf-8":
                return Decoded((records.cast(pa.string()),), len(records))
        except pa.ArrowInvalid:
            pass  # not UTF-8: one by one
        texts = [_decode(r, self._charset) for r in records.to_pylist()]
        return Decoded((pa.array(texts, pa.string()),), len(records))

    def encode(self, batch: Batch) -> pa.Array:
        column = batch.columns[0]
        if self._kind.is_string and self._charset != "utf-8":
            texts = [None if t is None else _encode(t, self._charset) for t in column.to_pylist()]
            column = pa.array(texts, pa.binary())
        return column.cast(pa.binary()).fill_null(b"")


def _decode(record: bytes, charset: str) -> str:
    """Decodes bytes as Java does: UTF-16 is big-endian where no mark says otherwise."""
    if charset == "utf-16" and record[:2] not in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE):
        charset = "utf-16-be"
    return record.decode(charset, "java-replace" if charset == "utf-8" else "replace")


def _encode(text: str, charset: str) -> bytes:
    if charset == "utf-16" and text:
        return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
    return text.encode(charset, "replace") if text else b""


def _replace(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD, one for the three bytes of a surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    part = error.object[error.start : error.start + 3]
    surrogate = (
        len(part) == 3
        and part[0] == 0xED
        and part[1] >= 0xA0
        and part[1] < 0xC0
        and 0x80 <= part[2] < 0xC0
    )
    return "\ufffd", error.start + 3 if surrogate else error.end


codecs.register_error("java-replace", _replace)


class _NumberCodec:
    """A number of fixed size. NULL is written as an empty record, which is read as NULL."""

    def __init__(self, kind: DataType, big: bool) -> None:
        self._kind = kind
        self._dtype = np.dtype((">" if big else "<") + _NUMBERS[kind.root])

    def decode(self, records: pa.Array) -> Decoded:
        offsets, data = text_buffers(records)
        lengths = np.diff(offsets)
        good = (lengths == self._dtype.itemsize) | (lengths == 0)
        rows = np.flatnonzero(good)
        full = rows[lengths[rows] > 0]
        raw = data[offsets[full][:, None] + np.arange(self._dtype.itemsize)]
        values = np.zeros(len(rows), self._dtype.newbyteorder("="))
        present = lengths[rows] > 0
        values[present] = raw.copy().view(self._dtype).reshape(-1)
        typed = values.astype(np.bool_) if self._kind.root is Root.BOOLEAN else values
        column = pa.array(typed, self._kind.arrow, mask=~present)
        size = self._dtype.itemsize
        bad = tuple(
            BadRecord(int(i), f"{int(lengths[i])} bytes are not {self._kind}, which has {size}")
            for i in np.flatnonzero(~good)
        )
        return Decoded((column,), len(rows), None if good.all() else rows, bad)

    def encode(self, batch: Batch) -> pa.Array:
        column = batch.columns[0]
        numbers = column.cast(pa.uint8()) if self._kind.root is Root.BOOLEAN else column
        values = np.asarray(numbers.fill_null(0)).astype(self._dtype)
        data = values.tobytes()
        size = self._dtype.itemsize
        records = [data[i * size : (i + 1) * size] for i in range(len(values))]
        return pa.array(
            [b"" if m else r for r, m in zip(records, column.is_null().to_pylist(), strict=True)],
            pa.binary(),
        )
