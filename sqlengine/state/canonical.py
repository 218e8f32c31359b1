"""The canonical form of values as keys: equal values have equal bytes.

The form is the same on every machine and in every version to come; `keys.BUCKET_HASH_VERSION`
numbers it. Version 1: a tag byte and a payload; integers are little-endian.

    00                                  NULL, of any type
    01 u8                               BOOLEAN
    02 i64                              exact number without a fraction that fits 64 bits: TINYINT
                                        to BIGINT, DECIMAL
    03 u8 scale, u8 length, i(length)   any other DECIMAL: unscaled value without trailing zeros,
                                        shortest two's complement
    04 f64                              FLOAT (widened) and DOUBLE; -0.0 is not 0.0, as in Flink,
                                        and there is one NaN (7ff8…)
    05 u32 length, UTF-8                CHAR and VARCHAR, as the text is: Flink tells CHAR(3) 'a'
                                        from 'a  ' too
    06 u32 length, bytes                BINARY and VARBINARY
    07 i32                              DATE, days
    08 i64                              TIME, nanoseconds
    09 i64 seconds, u32 nanoseconds     TIMESTAMP
    0a i64 seconds, u32 nanoseconds     TIMESTAMP_LTZ
    0b i64                              INTERVAL SECOND, milliseconds
    0c i64                              INTERVAL MONTH, months
    0d u32 count, elements              ARRAY
    0e u32 count, keys with values      MAP, and MULTISET with the number of each; in the order of
                                        the keys' bytes
    0f u32 count, fields                ROW and STRUCTURED, without the fields' names
    10 u32 length, UTF-8                VARIANT, in its written form
    11 u32 length, UTF-8                BITMAP, in its written form

Values within a nested value have the same form, NULL included. So INT 1, BIGINT 1 and DECIMAL 1.00
are one key, ARRAY[1] and ARRAY[1.00] too, and equal maps are one key whatever the order of their
entries. The planner never compares an exact and an approximate number, nor two different time
types, without a cast.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from sqlengine.state.columns import BoolArray, IntArray, SlotColumn, objects, to_numpy, validity
from udf.arrays.lists import Lists, elements_in, lists_of
from udf.casts.nested import NESTED, RECORDS, parts_of, rebuilt

_NULL = b"\x00"
_NAN = float("nan")
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FLOATS = (Root.FLOAT, Root.DOUBLE)
_ENTRIES = (Root.MAP, Root.MULTISET)

_Encoder: TypeAlias = Callable[..., bytes]

_bool = struct.Struct("<BB").pack
_int = struct.Struct("<Bq").pack
_day = struct.Struct("<Bi").pack
_double = struct.Struct("<Bd").pack
_head = struct.Struct("<BI").pack
_instant = struct.Struct("<BqI").pack


def has_form(kind: DataType) -> bool:
    """True if values of the type can be keys."""
    known = kind.root in _ENCODERS or kind.root in _TIMES or kind.root in NESTED
    return known and all(map(has_form, kind.children))


def distinct_forms(kind: DataType, column: pa.Array) -> tuple[pa.Array, list[bytes], IntArray]:
    """Returns the distinct values (NULL among them), their canonical bytes, and each row's index
    into them."""
    if kind.root not in NESTED:
        dictionary, codes = dictionary_of(column)
        return dictionary, _encode_values(kind, dictionary), codes
    encoded = _encode_nested(kind, column)
    numbers: dict[bytes, int] = {}
    codes = np.fromiter(
        (numbers.setdefault(e, len(numbers)) for e in encoded), np.int64, len(encoded)
    )
    _, first = np.unique(codes, return_index=True)
    return column.take(pa.array(first)), list(numbers), codes


def comparable(kind: DataType, values: pa.Array) -> tuple[SlotColumn, BoolArray]:
    """Returns values as `to_numpy` does, but in a form in which `==` is the equality of keys.

    The entries of nested maps are in the order of their keys' bytes, and there is one NaN. Nested
    zeros of both signs differ by their hash alone.
    """
    ordered = _sorted_maps(kind, values) if _contains(kind, _ENTRIES) else values
    items, valid = to_numpy(kind, ordered)
    if kind.root in NESTED and _contains(kind, _FLOATS):
        items = objects((_one_nan(v) for v in items.tolist()), len(items))
    return items, valid


def dictionary_of(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """Returns the distinct values (NULL among them), and each row's index into them."""
    if pa.types.is_null(column.type):
        return column.slice(0, 1), np.zeros(len(column), np.int64)
    if len(column) == 1:
        return column, np.zeros(1, np.int64)
    encoded = column.dictionary_encode("encode")
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def forms_of(
    kind: DataType, values: SlotColumn, valid: BoolArray, arrow: pa.DataType | None = None
) -> list[bytes]:
    """Returns the canonical bytes of values as `to_numpy` gives them (of an array of type `arrow`),
    other than nested ones."""
    if kind.root is Root.NULL:
        return [_NULL] * len(values)
    items, known = values.tolist(), valid.tolist()
    if kind.root in (Root.CHAR, Root.VARCHAR):  # most keys are texts: no call for each
        texts = [b"" if v is None else v.encode("utf-8", "surrogatepass") for v in items]
        forms = [_head(5, len(text)) + text for text in texts]
        return (
            forms
            if all(known)
            else [f if ok else _NULL for f, ok in zip(forms, known, strict=True)]
        )
    one = _encoder(kind, arrow or kind.arrow)
    return [one(v) if ok else _NULL for v, ok in zip(items, known, strict=True)]


def _encode_values(kind: DataType, values: pa.Array) -> list[bytes]:
    """Returns the canonical bytes of each value of one column."""
    return forms_of(kind, *to_numpy(kind, values), values.type)


def _encoder(kind: DataType, arrow: pa.DataType) -> _Encoder:
    """Returns a function that encodes one value other than NULL, as `to_numpy` gives it."""
    match kind.root:
        case Root.TIME:
            return lambda v: _int(8, v * (_UNITS["ns"] // _UNITS[arrow.unit]))
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            tag, unit = 9 if kind.root is Root.TIMESTAMP else 10, _UNITS[arrow.unit]
            return lambda v: _time(tag, v, unit)
    return _ENCODERS[kind.root]


def _text(tag: int, data: bytes) -> bytes:
    head: bytes = _head(tag, len(data))
    return head + data


def _approximate(value: float) -> bytes:
    number: bytes = _double(4, _NAN if value != value else value)
    return number


def _time(tag: int, value: int, unit: int) -> bytes:
    instant: bytes = _instant(tag, value // unit, value % unit * (_UNITS["ns"] // unit))
    return instant


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled: int = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    scale = max(-exponent, 0)
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    unscaled = -unscaled if sign else unscaled
    if scale == 0 and -(2**63) <= unscaled < 2**63:
        whole: bytes = _int(2, unscaled)
        return whole
    data = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "little", signed=True)
    return bytes((3, scale, len(data))) + data


_TIMES = (Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.NULL)
_ENCODERS: dict[Root, _Encoder] = {
    Root.BOOLEAN: lambda v: _bool(1, v),
    Root.TINYINT: lambda v: _int(2, v),
    Root.SMALLINT: lambda v: _int(2, v),
    Root.INT: lambda v: _int(2, v),
    Root.BIGINT: lambda v: _int(2, v),
    Root.DECIMAL: _decimal,
    Root.FLOAT: _approximate,
    Root.DOUBLE: _approximate,
    Root.CHAR: lambda v: _text(5, v.encode("utf-8", "surrogatepass")),
    Root.VARCHAR: lambda v: _text(5, v.encode("utf-8", "surrogatepass")),
    Root.BINARY: lambda v: _text(6, v),
    Root.VARBINARY: lambda v: _text(6, v),
    Root.DATE: lambda v: _day(7, v),
    Root.INTERVAL_DAY_TIME: lambda v: _int(11, v),
    Root.INTERVAL_YEAR_MONTH: lambda v: _int(12, v),
    Root.VARIANT: lambda v: _text(16, v.encode("utf-8", "surrogatepass")),
    Root.BITMAP: lambda v: _text(17, v.encode("utf-8")),
}


def _encode_all(kind: DataType, column: pa.Array) -> list[bytes]:
    """Returns the canonical bytes of each value."""
    if kind.root in NESTED:
        return _encode_nested(kind, column)
    dictionary, codes = dictionary_of(column)
    encoded = _encode_values(kind, dictionary)
    return [encoded[c] for c in codes.tolist()]


def _encode_nested(kind: DataType, column: pa.Array) -> list[bytes]:
    """Returns the canonical bytes of each nested value, encoded part by part."""
    present, kinds = validity(column).tolist(), parts_of(kind)
    if kind.root in RECORDS:
        fields = [_encode_all(k, pc.struct_field(column, i)) for i, k in enumerate(kinds)]
        rows = [b"".join(r) for r in zip(*fields, strict=True)] if fields else [b""] * len(column)
        head = _head(15, len(kinds))
        return [head + r if ok else _NULL for r, ok in zip(rows, present, strict=True)]
    lists = lists_of(column, len(column))
    if kind.root is Root.ARRAY:
        elements = _elements(kinds[0], lists.values, lists)
        return [
            _head(13, len(e)) + b"".join(e) if ok else _NULL
            for e, ok in zip(elements, present, strict=True)
        ]
    keys, values = _elements(kinds[0], column.keys, lists), _elements(kinds[1], column.items, lists)
    entries = (sorted(zip(k, v, strict=True)) for k, v in zip(keys, values, strict=True))
    forms = (_head(14, len(e)) + b"".join(k + v for k, v in e) for e in entries)
    return [form if ok else _NULL for form, ok in zip(forms, present, strict=True)]


def _elements(kind: DataType, values: pa.Array, lists: Lists) -> Iterator[list[bytes]]:
    """Yields the canonical bytes of each row's elements."""
    encoded = _encode_all(kind, values.take(pa.array(elements_in(lists))))
    ends = np.cumsum(lists.lengths).tolist()
    return (
        encoded[end - size : end] for end, size in zip(ends, lists.lengths.tolist(), strict=True)
    )


def _contains(kind: DataType, roots: tuple[Root, ...]) -> bool:
    """True if the type or a type within it has one of these roots."""
    return kind.root in roots or any(_contains(child, roots) for child in kind.children)


def _sorted_maps(kind: DataType, column: pa.Array) -> pa.Array:
    """Returns the column with the entries of all its maps in the order of their keys' bytes."""
    kinds = parts_of(kind)
    if kind.root not in NESTED:
        return column
    if kind.root in RECORDS:
        fields = [_sorted_maps(k, pc.struct_field(column, i)) for i, k in enumerate(kinds)]
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=column.is_null())
    lists = lists_of(column, len(column))
    places = elements_in(lists)
    if kind.root in _ENTRIES:
        keys = _encode_all(kinds[0], column.keys.take(pa.array(places)))
        rows = np.repeat(np.arange(len(column)), lists.lengths).tolist()
        places = places[sorted(range(len(keys)), key=lambda i: (rows[i], keys[i]))]
    parts = (column.keys, column.items) if kind.root in _ENTRIES else (column.values,)
    chosen = [_sorted_maps(k, p.take(pa.array(places))) for k, p in zip(kinds, parts, strict=True)]
    return rebuilt(chosen, lists, kind.root is Root.ARRAY, column.type)


def _one_nan(value: Any) -> Any:
    """Replaces every NaN by one object, since containers compare their parts by identity first."""
    match value:
        case float():
            return _NAN if value != value else value
        case list() | tuple():
            return type(value)(map(_one_nan, value))
        case dict():
            return {name: _one_nan(field) for name, field in value.items()}
    return value
