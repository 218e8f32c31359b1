"""Readers of single values of Avro: numbers, times and texts, as a column of a table has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from sqlengine.formats.avro.cursor import Cursor, Failures, IntArray, Mask
from sqlengine.formats.avro.schemas import AvroType, BadSchema
from sqlengine.formats.times import NANOS

_BITS: Final = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_FLOATS: Final = (Root.FLOAT, Root.DOUBLE)
_DAY: Final = 86_400 * 10**9
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}


class Reader(Protocol):
    """Reads a value of each record as a column of a table."""

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        """Reads where the cursor stands, in these records."""

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        """Makes the column of what fastavro has read of these records, without logical types."""


class Numbers:
    """Reads an int or long as a number or a time."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        self._path, self._kind = path, kind
        self._int = written.kind == "int"
        self._unit = _UNITS.get(written.logical.rpartition("-")[2], "ms")
        known = kind.root in _BITS or kind.root in _FLOATS or kind.is_timestamp
        if not known and kind.root not in (Root.DATE, Root.TIME):
            raise mismatch(path, written, kind)

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        return self._column(cursor.numbers(lanes), cursor.failures, lanes)

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return self._column(np.array(values, np.int64), failures, lanes)

    def _column(self, values: IntArray, failures: Failures, lanes: IntArray) -> pa.Array:
        kind = self._kind
        if self._int:
            values = self._within(values, -(2**31), 2**31 - 1, failures, lanes)
        if kind.root in _FLOATS:
            return pa.array(values.astype(kind.arrow.to_pandas_dtype()))
        if kind.is_timestamp or kind.root is Root.TIME:
            return self._times(values, failures, lanes)
        bits = 32 if kind.root is Root.DATE else _BITS[kind.root]
        values = self._within(values, -(1 << bits - 1), (1 << bits - 1) - 1, failures, lanes)
        return pa.array(values.astype(f"i{bits // 8}")).view(kind.arrow)

    def _times(self, values: IntArray, failures: Failures, lanes: IntArray) -> pa.Array:
        kind = self._kind
        if kind.root is Root.TIME:
            values = self._within(values, 0, _DAY // NANOS[self._unit] - 1, failures, lanes)
        mine, theirs = NANOS[str(kind.arrow.unit)], NANOS[self._unit]
        if theirs > mine:
            factor = theirs // mine
            most = (2**63 - 1) // factor
            values = self._within(values, -most, most, failures, lanes) * factor
        elif theirs < mine:
            values = np.floor_divide(values, mine // theirs)
        bits = kind.arrow.bit_width
        return pa.array(values.astype(f"i{bits // 8}")).view(kind.arrow)

    def _within(
        self, values: IntArray, least: int, most: int, failures: Failures, lanes: IntArray
    ) -> IntArray:
        wrong = (values < least) | (values > most)
        if not wrong.any():
            return values
        value = int(values[wrong][0])
        failures.add(lanes[wrong], f"{self._path}: {value} is out of the range of {self._kind}")
        return np.where(wrong, 0, values)


class Floats:
    """Reads a float or double."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        if kind.root not in _FLOATS or (written.kind == "double" and kind.root is Root.FLOAT):
            raise mismatch(path, written, kind)
        self._kind = kind
        self._size, self._form = (4, "<f4") if written.kind == "float" else (8, "<f8")

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        values = cursor.fixed(lanes, self._size).view(self._form).reshape(-1)
        return pa.array(values.astype(self._kind.arrow.to_pandas_dtype()))

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return pa.array(np.array(values, self._form).astype(self._kind.arrow.to_pandas_dtype()))


class Booleans:
    """Reads a boolean."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        if kind.root is not Root.BOOLEAN:
            raise mismatch(path, written, kind)

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        # Any byte but 0 is TRUE, as fastavro has it: else it would depend on the other records.
        return pa.array(cursor.fixed(lanes, 1).reshape(-1).astype(np.bool_))

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return pa.array(values, pa.bool_())


class Texts:
    """Reads a string, bytes or a fixed as a text, as bytes or as a DECIMAL."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        self._size = written.size if written.kind == "fixed" else None
        self._convert = _converter(path, written, kind)

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        if self._size is None:
            return self._convert(cursor.texts(lanes, cursor.lengths(lanes)), cursor.failures, lanes)
        short = cursor.left(lanes) < self._size
        if short.any():
            cursor.fail(lanes[short], "it ends too early")
        lengths = np.where(short, 0, self._size)
        return self._convert(cursor.texts(lanes, lengths), cursor.failures, lanes)

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return self._convert(pa.array(values, pa.binary()), failures, lanes)


class Enums:
    """Reads an enum as a text."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        self._path = path
        if not kind.is_string:
            raise mismatch(path, written, kind)
        self._symbols = pa.array([*written.symbols, ""], pa.string())
        self._known = len(written.symbols)

    def read(self, cursor: Cursor, lanes: IntArray) -> pa.Array:
        found = cursor.numbers(lanes)
        wrong = (found < 0) | (found >= self._known)
        if wrong.any():
            cursor.failures.add(lanes[wrong], f"{self._path}: an enum has no such symbol")
            found = np.where(wrong, self._known, found)
        return self._symbols.take(pa.array(found))

    def of(self, values: Sequence[object], failures: Failures, lanes: IntArray) -> pa.Array:
        return pa.array(values, pa.string())


Convert = Callable[[pa.Array, Failures, IntArray], pa.Array]


def _converter(path: str, written: AvroType, kind: DataType) -> Convert:
    """Returns the conversion of bytes to a column."""
    if kind.is_binary:
        return lambda values, failures, lanes: values
    if kind.is_string and written.kind != "fixed":
        return lambda values, failures, lanes: _utf8(path, values, failures, lanes)
    if kind.root is Root.DECIMAL and written.kind != "string":
        scale = written.scale if written.logical == "decimal" else kind.scale
        return lambda values, failures, lanes: _decimals(path, values, scale, kind, failures, lanes)
    raise mismatch(path, written, kind)


def _utf8(path: str, values: pa.Array, failures: Failures, lanes: IntArray) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array([not _is_utf8(v) for v in values.to_pylist()])
    failures.add(lanes[wrong], f"{path}: a text is not UTF-8")
    return pc.if_else(pa.array(wrong), pa.scalar(b""), values).cast(pa.string())


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(
    path: str, values: pa.Array, scale: int, kind: DataType, failures: Failures, lanes: IntArray
) -> pa.Array:
    """Converts numbers of up to sixteen bytes, the highest first, with so many digits behind the
    point. One that has more digits than the column is NULL, as in Flink."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(ends)
    long = lengths > 16
    if long.any():
        failures.add(lanes[long], f"{path}: a decimal has more than 16 bytes")
        lengths = np.where(long, 0, lengths)
    wide = _sign_extended(ends[:-1], lengths, bytes_)
    numbers = pa.Array.from_buffers(
        pa.decimal128(38, max(scale, 0)), len(values), [None, pa.py_buffer(wide)]
    )
    return _as_decimal(numbers, kind)


def _sign_extended(
    starts: IntArray, lengths: IntArray, data: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    """Returns sixteen bytes of each number, the lowest first."""
    count = len(starts)
    wide = np.zeros((count, 16), np.uint8)
    filled: Mask = lengths > 0
    wide[filled] = np.where(data[starts[filled]] >= 0x80, 0xFF, 0)[:, None]
    for place in range(int(lengths.max(initial=0))):
        there = lengths > place
        wide[there, place] = data[starts[there] + lengths[there] - 1 - place]
    return wide


def _as_decimal(numbers: pa.Array, kind: DataType) -> pa.Array:
    try:
        return numbers.cast(kind.arrow)
    except pa.ArrowInvalid:
        pass
    cast: list[object] = []
    for number in numbers:
        try:
            cast.append(number.cast(kind.arrow).as_py())
        except pa.ArrowInvalid:
            cast.append(None)
    return pa.array(cast, kind.arrow)


def mismatch(path: str, written: AvroType, kind: DataType) -> BadSchema:
    """Makes the error of a column that cannot hold what was written."""
    logical = f" ({written.logical})" if written.logical else ""
    return BadSchema(f"{path}: it is written as {written.kind}{logical}, which is no {kind.plain}")
