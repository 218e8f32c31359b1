"""Rows for people and programs: changelog rows as Flink prints them, as JSON lines or as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root, Schema
from sqlengine.batch import Batch, RowKind

JsonValue: TypeAlias = None | bool | int | float | str | list["JsonValue"]
Row: TypeAlias = tuple[str, list[JsonValue]]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class ResultSink:
    """Takes the rows of a query and gives them to `emit` once their epoch is complete."""

    guarantee: ClassVar[str] = "at-least-once"

    def __init__(self, emit: Callable[[Batch], None]) -> None:
        self._emit = emit
        self._pending: list[Batch] = []

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        self._pending.append(batch)

    def commit(self, epoch: int) -> int:
        pending, self._pending = self._pending, []
        for batch in pending:
            self._emit(batch)
        return sum(b.num_rows for b in pending)

    def close(self) -> None: ...


def rows_of(batch: Batch) -> Iterator[Row]:
    """The rows with their kinds (`+I`), values in the form that `to_json` gives."""
    columns = [column_to_json(c, f.type) for c, f in zip(batch.columns, batch.schema, strict=True)]
    kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
    for i, kind in enumerate(kinds.tolist()):
        yield RowKind(kind).short, [c[i] for c in columns]


def column_to_json(array: pa.Array, kind: DataType) -> list[JsonValue]:
    """Values as JSON: exact and time types as text (Java's), BYTES as hex, MAP as a list of pairs."""
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.TIME):
        unit = array.type.unit
        storage = pa.int32() if array.type.bit_width == 32 else pa.int64()
        return [None if v is None else _time_text(v, unit, kind.root) for v in array.cast(storage).to_pylist()]
    if kind.root is Root.FLOAT:
        return [None if v is None else _finite(float(str(np.float32(v)))) for v in array.to_pylist()]
    return [to_json(v, kind) for v in array.to_pylist()]


def to_json(value: object, kind: DataType) -> JsonValue:
    """One Python value of a SQL type as JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return _finite(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case date():
            return value.isoformat()
        case list() if kind.root in (Root.MAP, Root.MULTISET):
            return [[to_json(k, kind.children[0]), to_json(v, kind.children[-1])] for k, v in value]
        case list():
            return [to_json(v, kind.children[0]) for v in value]
        case dict():
            return [to_json(value[n], c) for n, c in zip(kind.names, kind.children, strict=True)]
    return str(value)


def _finite(value: float) -> JsonValue:
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")


def _time_text(value: int, unit: str, root: Root) -> str:
    """As Java's LocalDateTime, Instant and LocalTime print: seconds only where needed (Instant: always), fractions in
    groups of three digits."""
    seconds, fraction = divmod(value, _UNITS[unit])
    days, second = divmod(seconds, 86_400)
    hour, minute, second = second // 3600, second // 60 % 60, second % 60
    nanos = fraction * (1_000_000_000 // _UNITS[unit])
    text = f"{hour:02}:{minute:02}"
    if second or nanos or root is Root.TIMESTAMP_LTZ:
        text += f":{second:02}"
    if nanos:
        digits = f"{nanos:09}"
        text += "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)
    if root is Root.TIME:
        return text
    day = (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    return f"{day}T{text}" + ("Z" if root is Root.TIMESTAMP_LTZ else "")


def event(stmt: int, kind: str, **rest: object) -> str:
    """One JSON line as the events output has it."""
    return json.dumps({"stmt": stmt, "kind": kind, **rest}, ensure_ascii=False)


def schema_event(schema: Schema) -> list[list[str]]:
    """Columns as [name, type] pairs."""
    return [[c.name, str(c.type)] for c in schema]
