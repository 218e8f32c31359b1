"""The fast way to read JSON records: arrow-rs, one call for a whole batch.

It reads some values otherwise than Flink, and what fails fails as a whole: the checks here find the
rows whose values are in doubt, and the error that says which column to leave to the sieve. The rest
is exactly what the sieve reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import arro3.io
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root, Schema
from sqlengine.formats import times
from sqlengine.formats.java import base64
from sqlengine.formats.json_sieve import are_objects, is_object
from sqlengine.formats.json_values import Rules

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
# From what arrow-rs read to the column, and the rows that are in doubt (None when none are).
Finish = Callable[[pa.Array], tuple[pa.Array, BoolArray | None]]

_OPEN, _CLOSE, _NEWLINE, _ZERO = ord("{"), ord("}"), ord("\n"), ord("0")
_LOWER = np.uint8(32)


class ColumnFailed(Exception):
    """The column `name` holds a value that arrow-rs does not read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BatchFailed(Exception):
    """Some record is malformed; which one is not known."""


@dataclass(frozen=True)
class _Reading:
    """The Arrow type to request of arrow-rs for a column, and how it is converted."""

    arrow: pa.DataType
    finish: Finish


def can_read(kind: DataType) -> bool:
    """True if columns of `kind` can be read here at all. (A fraction for a SMALLINT would be cut
    silently.)"""
    return (
        kind.root in _SIMPLE or kind.is_timestamp or (kind.root is Root.DECIMAL and kind.scale < 37)
    )


class FastReader:
    """Reads the columns of `schema`, which holds types that `can_read` only."""

    def __init__(self, schema: Schema, rules: Rules) -> None:
        self._readings = [_reading(c.type, rules) for c in schema]
        self._names = schema.names
        self._arrow = pa.schema(
            [pa.field(c.name, r.arrow) for c, r in zip(schema, self._readings, strict=True)]
        )

    def read(self, joined: bytes, num_rows: int) -> tuple[tuple[pa.Array, ...], BoolArray | None]:
        """Columns of `num_rows` records joined by line breaks that passed `suspicious`, and the
        rows in doubt. ColumnFailed or BatchFailed when it cannot."""
        read = self._read(joined, num_rows)
        if read is None or read.num_rows != num_rows:
            raise BatchFailed
        columns: list[pa.Array] = []
        doubtful: BoolArray | None = None
        for column, reading in zip(read.columns, self._readings, strict=True):
            values, doubt = reading.finish(column)
            columns.append(values)
            if doubt is not None and doubt.any():
                doubtful = doubt if doubtful is None else doubtful | doubt
        return tuple(columns), doubtful

    def _read(self, joined: bytes, num_rows: int) -> pa.RecordBatch | None:
        """Reads a batch; None when it has more than `num_rows` records. Without columns the syntax
        is checked all the same."""
        try:
            reader = arro3.io.read_json(joined, self._arrow, batch_size=num_rows + 1)
            batch = pa.record_batch(reader.read_next_batch())
        except StopIteration:
            return None
        except Exception as error:  # noqa: BLE001  arro3 raises nothing more exact
            raise self._failure(str(error)) from None
        return batch

    def _failure(self, message: str) -> ColumnFailed | BatchFailed:
        for name in self._names:
            if f"decoding field '{name}': " in message:
                return ColumnFailed(name)
        return BatchFailed()


def suspicious(records: pa.Array, joined: bytes) -> BoolArray | None:
    """The records that must not be given to arrow-rs, None when there are none. `joined` are all,
    by line breaks.

    Each record must be JSON by the letter, begin with { and end with }, and have no { right after a
    }: else two objects on a line could make up for a record that ran into the next one. A NUL,
    written out or as an escape, in a message of arrow-rs's would end the process."""
    offsets, data = times.text_buffers(records)
    start, end = offsets[:-1], offsets[1:]
    empty = start == end
    if empty.any():
        bad: BoolArray = empty.copy()
        full = ~empty
        bad[full] = (data[start[full]] != _OPEN) | (data[end[full] - 1] != _CLOSE)
    else:
        bad = (data[start] != _OPEN) | (data[end - 1] != _CLOSE)
    doubles, odd = _odd_braces(joined), _odd_characters(joined)
    if len(doubles) or len(odd):
        line_ends = np.cumsum(end - start + 1)
        for row in np.unique(np.searchsorted(line_ends, doubles, side="right")):
            # It may stand in a string.
            bad[row] = bad[row] or not is_object(records[int(row)].as_py())
        bad[np.searchsorted(line_ends, odd, side="right")] = True
    # The reader (arrow-rs) forgives missing and doubled commas, and numbers such as 01 and 1.
    if not are_objects(joined):
        for row in np.flatnonzero(~bad).tolist():
            bad[row] = not is_object(records[row].as_py())
    return bad if bad.any() else None


def _odd_braces(joined: bytes) -> IntArray:
    """Returns the offsets of each } that has a { or space after it in the same record."""
    data = np.frombuffer(joined, np.uint8)
    closing = np.flatnonzero(data[:-1] == _CLOSE)
    behind = data[closing + 1]
    places: IntArray = closing[(behind == _OPEN) | ((behind <= 32) & (behind != _NEWLINE))]
    return places


def _odd_characters(joined: bytes) -> IntArray:
    """Returns the offsets of a NUL, plain or escaped, and of escapes that arrow-rs reads as another
    character: surrogate pairs from U+20000 on."""
    data = np.frombuffer(joined, np.uint8)
    places = np.flatnonzero(data == 0) if b"\0" in joined else np.empty(0, np.int64)
    escapes = _pairs(joined, b"\\u") if b"\\" in joined else places[:0]
    escapes = escapes[escapes <= len(data) - 6]
    if not len(escapes):
        return places
    first, second, third = (data[escapes + k] for k in (2, 3, 4))
    nul = (first == _ZERO) & (second == _ZERO) & (third == _ZERO) & (data[escapes + 5] == _ZERO)
    second |= _LOWER  # letters in lower case; digits have the bit anyhow
    high = ((first | _LOWER) == ord("d")) & (second >= ord("8")) & (second <= ord("b"))
    return np.concatenate(
        [places, escapes[nul | (high & ((second > ord("8")) | (third >= ord("4"))))]]
    )


def _pairs(joined: bytes, pair: bytes) -> IntArray:
    """Returns the offsets of two adjacent bytes. It compares words of 16 bits: `bytes.find` is four
    times slower here."""
    word = int.from_bytes(pair, "little")
    even = np.flatnonzero(np.frombuffer(joined, "<u2", len(joined) // 2) == word) * 2
    odd = np.flatnonzero(np.frombuffer(joined, "<u2", (len(joined) - 1) // 2, 1) == word) * 2 + 1
    return np.concatenate([even, odd])


def _as_read(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
    return column, None


def _extremes(low: int, high: int) -> Finish:
    """Numbers just beyond the range come out as its ends."""

    def finish(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
        # What stands where a value is NULL is 0 or was read: at worst a row is looked at again.
        values = np.frombuffer(
            column.buffers()[1],
            column.type.to_pandas_dtype(),
            len(column),
            column.offset * column.type.byte_width,
        )
        extreme: BoolArray = (values == low) | (values == high)
        return column, extreme if extreme.any() else None

    return finish


def _finite(target: pa.DataType) -> Finish:
    """Texts such as `inf` are numbers for arrow-rs, but not for Flink."""

    def finish(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
        finite = pc.all(pc.is_finite(column)).as_py()
        doubt = None if finite is not False else _mask(pc.invert(pc.is_finite(column)))
        return column.cast(target, safe=False), doubt

    return finish


def _decimals(kind: DataType) -> Finish:
    """arrow-rs cuts: it reads one digit more than needed, which is then rounded half up."""

    def finish(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
        try:
            rounded = pc.round(column, kind.scale, round_mode="half_towards_infinity")
        except pa.ArrowInvalid:
            return pa.nulls(len(column), kind.arrow), np.ones(len(column), np.bool_)
        try:
            return rounded.cast(kind.arrow), None
        except pa.ArrowInvalid:
            return _narrowed(rounded, kind), None

    return finish


def _narrowed(column: pa.Array, kind: DataType) -> pa.Array:
    """NULL where a number has more digits than `kind`, as in Flink."""
    limit = pa.scalar(
        Decimal(10) ** (kind.precision - kind.scale), pa.decimal256(76, column.type.scale)
    )
    fits = pc.less(pc.abs(column).cast(limit.type), limit)
    return pc.if_else(fits, column, pa.scalar(None, column.type)).cast(kind.arrow)


def _base64(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
    texts = column.to_pylist()
    values = [None if t is None else base64(t) for t in texts]
    doubt = np.array(
        [v is None and t is not None for v, t in zip(values, texts, strict=True)], np.bool_
    )
    return pa.array(values, pa.binary()), doubt


def _dates(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
    """Arrow reads exactly what Flink reads, but for years beyond four digits."""
    try:
        return column.cast(pa.date32()), None
    except pa.ArrowInvalid:
        days = [None if t is None else times.parse_date(t) for t in column.to_pylist()]
    days = [d if d is not None and -(2**31) <= d < 2**31 else None for d in days]
    values = pa.array(days, pa.date32())
    return values, _mask(pc.and_(pc.is_null(values), pc.is_valid(column)))


def _times(kind: DataType) -> Finish:
    unit = times.NANOS["ms" if kind.precision <= 3 else kind.arrow.unit]

    def finish(column: pa.Array) -> tuple[pa.Array, BoolArray | None]:
        nanos = [None if t is None else times.parse_time(t) for t in column.to_pylist()]
        values = pa.array([None if n is None else n // unit for n in nanos], kind.arrow)
        return values, _mask(pc.and_(pc.is_null(values), pc.is_valid(column)))

    return finish


def _timestamps(kind: DataType, standard: str) -> Finish:
    return lambda column: times.parse_timestamps(column, kind, standard)


def _mask(values: pa.BooleanArray) -> BoolArray:
    return np.asarray(values.fill_null(False))


_SIMPLE: dict[Root, Callable[[DataType], _Reading]] = {
    Root.BOOLEAN: lambda kind: _Reading(pa.bool_(), _as_read),
    Root.INT: lambda kind: _Reading(pa.int32(), _extremes(-(2**31), 2**31 - 1)),
    Root.BIGINT: lambda kind: _Reading(pa.int64(), _extremes(-(2**63), 2**63 - 1)),
    Root.FLOAT: lambda kind: _Reading(pa.float64(), _finite(pa.float32())),
    Root.DOUBLE: lambda kind: _Reading(pa.float64(), _finite(pa.float64())),
    Root.CHAR: lambda kind: _Reading(pa.string(), _as_read),
    Root.VARCHAR: lambda kind: _Reading(pa.string(), _as_read),
    Root.BINARY: lambda kind: _Reading(pa.string(), _base64),
    Root.VARBINARY: lambda kind: _Reading(pa.string(), _base64),
    Root.DATE: lambda kind: _Reading(pa.string(), _dates),
    Root.TIME: lambda kind: _Reading(pa.string(), _times(kind)),
    Root.DECIMAL: lambda kind: _Reading(pa.decimal128(38, kind.scale + 1), _decimals(kind)),
}


def _reading(kind: DataType, rules: Rules) -> _Reading:
    if kind.is_timestamp:
        return _Reading(pa.string(), _timestamps(kind, rules.standard))
    if kind.root in (Root.FLOAT, Root.DOUBLE) and rules.unsigned_zero:
        finish = _finite(kind.arrow)
        return _Reading(pa.float64(), lambda column: finish(pc.add(column, 0.0)))
    return _SIMPLE[kind.root](kind)
