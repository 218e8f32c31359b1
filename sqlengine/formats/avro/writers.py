"""Writers of Avro's binary form: a column becomes the bytes of each value, at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError
from parser.types import INT, STRING, DataType, Root
from sqlengine.formats.avro.cursor import IntArray
from sqlengine.formats.avro.leaves import mismatch
from sqlengine.formats.avro.schemas import AvroType, BadSchema
from sqlengine.formats.times import NANOS

_INTEGERS: Final = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}
_NOTHING: Final = pa.scalar(b"")


class Writer(Protocol):
    """Writes a column that has no NULL."""

    def write(self, column: pa.Array) -> pa.Array:
        """Returns a BinaryArray with the bytes of each value. ExecutionError for a value that
        cannot be written."""


def writer_of(path: str, written: AvroType, kind: DataType) -> Writer:
    """Returns a writer of a column as a type of a schema. BadSchema where that cannot hold it."""
    if written.kind == "union":
        return Optional(path, written, kind)
    match (written.kind, kind.root):
        case ("int" | "long", _):
            return Numbers(path, written, kind)
        case ("float", Root.FLOAT) | ("double", Root.FLOAT | Root.DOUBLE):
            return Fixed(np.dtype("<f4" if written.kind == "float" else "<f8"))
        case ("boolean", Root.BOOLEAN):
            return Fixed(np.dtype("u1"))
        case ("string" | "bytes", _) if kind.is_string or kind.is_binary:
            return Texts()
        case ("enum", _) if kind.is_string:
            return Enums(path, written)
        case ("bytes", Root.DECIMAL) if written.scale == kind.scale:
            return Decimals()
        case ("array", Root.ARRAY):
            return Arrays(path, written, kind)
        case ("map", Root.MAP | Root.MULTISET) if kind.children[0].is_string:
            return Maps(path, written, kind)
        case ("record", Root.ROW):
            return Structs(path, written, dict(zip(kind.names, kind.children, strict=True)))
    raise mismatch(path, written, kind)


def required(path: str, column: pa.Array) -> pa.Array:
    """Returns the column. ExecutionError where it has a NULL."""
    if column.null_count:
        raise ExecutionError(f"column '{path}' is NULL, and the schema does not let it be")
    return column


class Optional:
    """Writes a union of one type and null."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        kinds = [branch.kind for branch in written.inner]
        if len(kinds) != 2 or kinds.count("null") != 1:
            raise BadSchema(f"{path}: a union that is not one type and null cannot be written")
        null = kinds.index("null")
        self._null = pa.scalar(_zigzag(np.array([null]))[0].as_py())
        self._prefix = pa.scalar(_zigzag(np.array([1 - null]))[0].as_py())
        self._inner = writer_of(path, written.inner[1 - null], kind)

    def write(self, column: pa.Array) -> pa.Array:
        there = column.drop_null() if column.null_count else column
        values = pc.binary_join_element_wise(self._prefix, self._inner.write(there), _NOTHING)
        if not column.null_count:
            return values
        filled = np.asarray(column.is_valid())
        at = pa.array(np.cumsum(filled) - 1, mask=~filled)
        return values.take(at).fill_null(self._null)


class Numbers:
    """Writes numbers and times as an int or long."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        times = kind.is_timestamp or kind.root in (Root.DATE, Root.TIME)
        wide = kind.root is Root.BIGINT or kind.is_timestamp
        if not (times or kind.root in _INTEGERS) or (wide and written.kind == "int"):
            raise mismatch(path, written, kind)
        self._factor = self._divisor = 1
        if kind.is_timestamp or kind.root is Root.TIME:
            unit = _UNITS.get(written.logical.rpartition("-")[2], "ms")
            mine, theirs = NANOS[str(kind.arrow.unit)], NANOS[unit]
            self._factor, self._divisor = max(mine // theirs, 1), max(theirs // mine, 1)

    def write(self, column: pa.Array) -> pa.Array:
        if pa.types.is_temporal(column.type):
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        values = np.asarray(column).astype(np.int64)
        return _zigzag(np.floor_divide(values * self._factor, self._divisor))


class Fixed:
    """Writes numbers of fixed size."""

    def __init__(self, dtype: np.dtype[np.generic]) -> None:
        self._dtype = dtype

    def write(self, column: pa.Array) -> pa.Array:
        values = np.asarray(column.to_numpy(zero_copy_only=False)).astype(self._dtype)
        offsets = np.arange(len(column) + 1, dtype=np.int32) * self._dtype.itemsize
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.binary(), len(column), buffers)


class Texts:
    """Writes texts and bytes behind their lengths."""

    def write(self, column: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(
            _zigzag(np.asarray(pc.binary_length(column))), column.cast(pa.binary()), _NOTHING
        )


class Enums:
    """Writes texts as the numbers of symbols."""

    def __init__(self, path: str, written: AvroType) -> None:
        self._path = path
        self._symbols = pa.array(written.symbols, pa.string())

    def write(self, column: pa.Array) -> pa.Array:
        at = pc.index_in(column, self._symbols)
        if at.null_count:
            wrong = column.filter(at.is_null())[0].as_py()
            raise ExecutionError(f"column '{self._path}': '{wrong[:60]}' is no symbol of the enum")
        return _zigzag(np.asarray(at))


class Decimals:
    """Writes decimals as few bytes as Java does, the highest first."""

    def write(self, column: pa.Array) -> pa.Array:
        count = len(column)
        data = np.frombuffer(column.buffers()[1], np.uint8, 16 * count, 16 * column.offset)
        wide = data.reshape(count, 16)[:, ::-1]
        # A byte that only repeats the sign of the one behind it is left out.
        sign = np.where(wide[:, :1] >= 0x80, 0xFF, 0)
        needed = (wide[:, :-1] != sign) | ((wide[:, 1:] & 0x80) != (sign & 0x80))
        lengths = np.where(needed.any(axis=1), 16 - needed.argmax(axis=1), 1)
        kept = np.arange(16) >= (16 - lengths)[:, None]
        return pc.binary_join_element_wise(_zigzag(lengths), _binary(wide[kept], lengths), _NOTHING)


class Arrays:
    """Writes arrays as one block."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        self._path, self._optional = path, written.inner[0].kind == "union"
        self._inner = writer_of(path, written.inner[0], kind.children[0])

    def write(self, column: pa.Array) -> pa.Array:
        items = column.flatten()
        items = items if self._optional else required(self._path, items)
        return _blocks(np.asarray(column.value_lengths()), self._inner.write(items))


class Maps:
    """Writes maps as one block of entries."""

    def __init__(self, path: str, written: AvroType, kind: DataType) -> None:
        value = kind.children[1] if kind.root is Root.MAP else INT
        self._path, self._optional = path, written.inner[0].kind == "union"
        self._keys = writer_of(path, AvroType("string"), STRING)
        self._values = writer_of(path, written.inner[0], value)

    def write(self, column: pa.Array) -> pa.Array:
        ends = np.asarray(column.offsets)
        keys = column.keys.slice(int(ends[0]), int(ends[-1] - ends[0]))
        items = column.items.slice(int(ends[0]), int(ends[-1] - ends[0]))
        items = items if self._optional else required(self._path, items)
        entries = pc.binary_join_element_wise(
            self._keys.write(keys), self._values.write(items), _NOTHING
        )
        return _blocks(np.diff(ends), entries)


class Structs:
    """Writes rows, field by field. A field of the schema needs a column, or may be null."""

    def __init__(self, path: str, written: AvroType, columns: dict[str, DataType]) -> None:
        unknown = [name for name in columns if name not in written.names]
        if unknown:
            raise BadSchema(f"the schema has no field '{unknown[0]}'")
        self._path = f"{path}." if path else ""
        self._names = tuple(columns)
        self._fields: list[tuple[str, Writer | None, bool]] = []
        for name, kind in zip(written.names, written.inner, strict=True):
            optional = kind.kind == "union"
            if name not in columns:
                if not optional or kind.inner[0].kind != "null":
                    raise BadSchema(f"the schema has a field '{name}' that is no column")
                self._fields.append((name, None, True))
            else:
                writer = writer_of(self._path + name, kind, columns[name])
                self._fields.append((name, writer, optional))

    def write(self, column: pa.Array) -> pa.Array:
        fields = [pc.struct_field(column, i) for i in range(column.type.num_fields)]
        return self.write_columns(fields, len(column))

    def write_columns(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        """Returns the bytes of each row of these columns."""
        by_name = dict(zip(self._names, columns, strict=True))
        parts: list[pa.Array] = []
        for name, writer, optional in self._fields:
            if writer is None:
                parts.append(pa.repeat(pa.scalar(b"\0"), rows))
            else:
                column = by_name[name]
                column = column if optional else required(self._path + name, column)
                parts.append(writer.write(column))
        return pc.binary_join_element_wise(*parts, _NOTHING)


def _blocks(lengths: npt.NDArray[np.integer], items: pa.Array) -> pa.Array:
    """Returns the lists: the number of elements, these, and a zero."""
    counts = lengths.astype(np.int64)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), b"")
    heads = _zigzag(counts)
    full = pc.binary_join_element_wise(heads, joined, pa.scalar(b"\0"), _NOTHING)
    return pc.if_else(pa.array(counts > 0), full, pa.scalar(b"\0"))


def _zigzag(values: npt.NDArray[np.integer]) -> pa.Array:
    """Returns numbers as Avro writes them: the sign in the last bit, seven bits a byte."""
    signed: IntArray = values.astype(np.int64)
    number = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    most = int(number.max(initial=0))
    width = max((most.bit_length() + 6) // 7, 1)
    if width == 1:
        return _binary(number.astype(np.uint8), np.ones(len(number), np.int64))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    rest = number[:, None] >> shifts
    lengths = np.maximum((rest != 0).sum(axis=1), 1)
    places = np.arange(width)
    more = places < (lengths - 1)[:, None]
    bytes_ = (rest & np.uint64(0x7F)).astype(np.uint8) | np.where(more, 0x80, 0).astype(np.uint8)
    return _binary(bytes_[places < lengths[:, None]], lengths)


def _binary(data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.integer]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
