"""Rows for people and programs: changelog rows as Flink prints them, as JSON lines or as a
table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import INT, DataType, Root, Schema
from sqlengine.batch import Batch, RowKind
from udf.java.hash_map_order import in_java_order

JsonValue: TypeAlias = None | bool | int | float | str | list["JsonValue"]
T = TypeVar("T")
Row: TypeAlias = tuple[str, list[JsonValue]]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def rows_of(batch: Batch) -> Iterator[Row]:
    """The rows with their kinds (`+I`), values in the form that `to_json` gives."""
    columns = [column_to_json(c, f.type) for c, f in zip(batch.columns, batch.schema, strict=True)]
    kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
    for i, kind in enumerate(kinds.tolist()):
        yield RowKind(kind).short, [c[i] for c in columns]


def column_to_json(array: pa.Array, kind: DataType) -> list[JsonValue]:
    """Converts a column to JSON values in the oracle's form.

    Exact and time types become text (as Java prints them), BYTES hex, ROW and ARRAY lists, MAP and
    MULTISET lists of pairs, VARIANT its JSON text."""
    convert = _CONVERTERS.get(kind.root)
    if convert is not None:
        return convert(array, kind)
    return [to_json(v, kind) for v in array.to_pylist()]


def _times(array: pa.Array, kind: DataType) -> list[JsonValue]:
    unit = array.type.unit
    storage = pa.int32() if array.type.bit_width == 32 else pa.int64()
    values = array.view(storage).to_pylist()
    return [None if v is None else _time_text(v, unit, kind.root) for v in values]


def _dates(array: pa.Array, kind: DataType) -> list[JsonValue]:
    return [None if v is None else _date_text(v) for v in array.view(pa.int32()).to_pylist()]


def _floats(array: pa.Array, kind: DataType) -> list[JsonValue]:
    # By its own digits: 0.1 as a double of a float is 0.10000000149011612.
    return [None if v is None else _finite(float(str(np.float32(v)))) for v in array.to_pylist()]


def _durations(array: pa.Array, kind: DataType) -> list[JsonValue]:
    return [None if v is None else _duration_text(v) for v in array.to_pylist()]


def _periods(array: pa.Array, kind: DataType) -> list[JsonValue]:
    return [None if v is None else _period_text(v) for v in array.to_pylist()]


def _structs(array: pa.Array, kind: DataType) -> list[JsonValue]:
    fields = [column_to_json(pc.struct_field(array, i), c) for i, c in enumerate(kind.children)]
    rows = map(list, zip(*fields, strict=True)) if fields else ([] for _ in range(len(array)))
    return [r if ok else None for r, ok in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _arrays(array: pa.Array, kind: DataType) -> list[JsonValue]:
    return list(_lists(array, column_to_json(array.values, kind.children[0])))


def _maps(array: pa.Array, kind: DataType) -> list[JsonValue]:
    keys = column_to_json(array.keys, kind.children[0])
    items = column_to_json(array.items, kind.children[1] if kind.root is Root.MAP else INT)
    maps = _lists(array, list(zip(keys, items, strict=True)))
    return [
        None if m is None else [[k, v] for k, v in in_java_order(m, kind.children[0])] for m in maps
    ]


_CONVERTERS: Mapping[Root, Callable[[pa.Array, DataType], list[JsonValue]]] = {
    Root.TIMESTAMP: _times,
    Root.TIMESTAMP_LTZ: _times,
    Root.TIME: _times,
    Root.DATE: _dates,
    Root.FLOAT: _floats,
    Root.INTERVAL_DAY_TIME: _durations,
    Root.INTERVAL_YEAR_MONTH: _periods,
    Root.ROW: _structs,
    Root.STRUCTURED: _structs,
    Root.ARRAY: _arrays,
    Root.MAP: _maps,
    Root.MULTISET: _maps,
}


def _lists(array: pa.Array, items: Sequence[T]) -> list[list[T] | None]:
    """The items of each row of a list or map array, from those of its child array."""
    ends = array.offsets.to_pylist()
    bounds = zip(ends[:-1], ends[1:], array.is_valid().to_pylist(), strict=True)
    return [list(items[start:end]) if ok else None for start, end, ok in bounds]


def to_json(value: object, kind: DataType) -> JsonValue:
    """Converts one Python value of a plain SQL type to JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return _finite(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
    return str(value)


def _duration_text(value: int) -> str:
    """Milliseconds as Java's Duration prints them: PT26H3M4.567S."""
    if value == 0:
        return "PT0S"
    sign = "-" if value < 0 else ""
    seconds, ms = divmod(abs(value), 1000)
    text = "PT"
    for number, unit in ((seconds // 3600, "H"), (seconds // 60 % 60, "M")):
        text += f"{sign}{number}{unit}" if number else ""
    fraction = f".{ms:03}".rstrip("0") if ms else ""
    return text + (f"{sign}{seconds % 60}{fraction}S" if seconds % 60 or ms else "")


def _period_text(value: int) -> str:
    """Months as Java's Period prints them."""
    return f"P{value}M" if value else "P0D"


def _finite(value: float) -> JsonValue:
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")


def _time_text(value: int, unit: str, root: Root) -> str:
    """Writes a time as Java's LocalDateTime, Instant and LocalTime print: seconds only where needed
    (Instant: always), fractions in groups of three digits."""
    seconds, fraction = divmod(value, _UNITS[unit])
    days, second = divmod(seconds, 86_400)
    hour, minute, second = second // 3600, second // 60 % 60, second % 60
    nanos = fraction * (1_000_000_000 // _UNITS[unit])
    text = f"{hour:02}:{minute:02}"
    if second or nanos or root is Root.TIMESTAMP_LTZ:
        text += f":{second:02}"
    if nanos:
        digits = f"{nanos:09}"
        text += "." + (
            digits[:3]
            if digits.endswith("000000")
            else digits[:6]
            if digits.endswith("000")
            else digits
        )
    if root is Root.TIME:
        return text
    return f"{_date_text(days)}T{text}" + ("Z" if root is Root.TIMESTAMP_LTZ else "")


def _date_text(days: int) -> str:
    """Writes a date as Java's LocalDate prints, which has years before 1 and, with a sign, after
    9999."""
    text = str(np.datetime64(days, "D"))
    if text[0] == "-":
        year, rest = text[1:].split("-", 1)
        return f"-{year:0>4}-{rest}"
    return "+" + text if len(text) > 10 else text


def event(stmt: int, kind: str, **rest: object) -> str:
    """Returns one JSON line of the events output."""
    return json.dumps({"stmt": stmt, "kind": kind, **rest}, ensure_ascii=False)


def schema_event(schema: Schema) -> list[list[str]]:
    """Columns as [name, type] pairs."""
    return [[c.name, str(c.type)] for c in schema]
