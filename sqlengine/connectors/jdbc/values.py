"""Values of columns as databases take and give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError, UnsupportedColumn
from parser.types import Column, DataType, Root, Schema
from planner.catalog import Table
from sqlengine.connectors.jdbc.driver import Value
from sqlengine.formats.texts import plain_texts
from sqlengine.formats.times import SQL, format_times, parse_timestamps

NUMBERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE)
TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_DAY = timedelta(days=1)
# All digits of a DECIMAL: by default 28 are kept.
_WIDE = Context(prec=38)


def check_types(table: Table, schema: Schema, *, arrays: bool) -> None:
    """Raises UnsupportedError for a column that the database has not."""
    for column in schema:
        kind = column.type
        while arrays and kind.root is Root.ARRAY:
            kind = kind.children[0]
        if not (
            kind.is_string
            or kind.is_binary
            or kind.root in (*NUMBERS, *TIMES, Root.BOOLEAN, Root.DECIMAL)
        ):
            raise UnsupportedColumn(
                f"column '{column.name}' of table '{table.display}' is {column.type}, which tables"
                f" of the connector '{table.options['connector']}' do not have",
                hint="declare it as STRING; what is written is made one by CAST or JSON_STRING",
                subject=column.name,
            )


def written(column: pa.Array, kind: DataType) -> list[Value]:
    """Converts a column to values for the database: numbers and bytes as they are, BOOLEAN as 0 and
    1, DECIMAL and times as text."""
    if kind.root is Root.BOOLEAN:
        column = column.cast(pa.int8())
    elif kind.root is Root.DECIMAL:
        column = plain_texts(column)
    elif kind.root in TIMES:
        column = pc.replace_substring_regex(format_times(column, kind, SQL), "Z$", "")
    values: list[Value] = column.to_pylist()
    return values


def columns_of(rows: Sequence[Sequence[object]], table: Table, name: str) -> dict[str, pa.Array]:
    """Converts rows of a table of the database to its columns, by name. ExecutionError as `read`
    raises it."""
    values: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * len(table.physical)
    return {c.name: read(v, c, name) for c, v in zip(table.physical, values, strict=True)}


def read(values: Sequence[object], column: Column, table: str) -> pa.Array:
    """A column from what the database gave. ExecutionError names the value that the type cannot
    hold."""
    try:
        array = _read(values, column.type)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise cannot_hold(column, table, str(error)) from None
    return checked(array, column, table)


def cannot_hold(column: Column, table: str, detail: str) -> ExecutionError:
    """Returns the error for a value that is none of its column's type."""
    return ExecutionError(
        f"column '{column.name}' of table '{table}' holds a value that is no {column.type}",
        detail=detail,
        hint="declare the column as STRING, or repair the value",
    )


def checked(array: pa.Array, column: Column, table: str) -> pa.Array:
    """Returns the values of a column. ExecutionError for NULL where it is NOT NULL."""
    if array.null_count and not column.type.nullable:
        raise ExecutionError(
            f"column '{column.name}' of table '{table}' is NOT NULL, and holds NULL"
        )
    return array


def _read(values: Sequence[object], kind: DataType) -> pa.Array:
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return _timestamps(values, kind)
    if kind.root is Root.ARRAY:
        return _arrays(values, kind)
    convert = _converters.get(kind.root) or (
        _bytes if kind.is_binary else _text if kind.is_string else None
    )
    values_ = [None if v is None else convert(v) if convert else v for v in values]
    if kind.root is Root.DECIMAL:
        digits = [None if v is None else _fitting(v, kind) for v in values_]
        return pa.array(digits, kind.arrow)
    return pa.array(values_, kind.arrow)


def _timestamps(values: Sequence[object], kind: DataType) -> pa.Array:
    suffix = "Z" if kind.root is Root.TIMESTAMP_LTZ else ""
    texts = pa.array(
        [None if v is None else str(v).replace("T", " ") + suffix for v in values], pa.string()
    )
    found, unread = parse_timestamps(texts, kind, SQL)
    if unread.any():
        raise ValueError(f"'{values[int(np.argmax(unread))]}'")
    return found


def _arrays(values: Sequence[object], kind: DataType) -> pa.Array:
    """Arrays from lists of Python, element by element. Elements may be texts."""
    lists = [v if isinstance(v, list) else None for v in values]
    all_ = [e for found in lists if found is not None for e in found]
    elements = _read([_element(e, kind.children[0]) for e in all_], kind.children[0])
    ends, offsets = 0, []
    for found in lists:
        offsets.append(None if found is None else ends)
        ends += 0 if found is None else len(found)
    return pa.ListArray.from_arrays(pa.array([*offsets, ends], pa.int32()), elements, kind.arrow)


def _element(value: object, kind: DataType) -> object:
    if not isinstance(value, str):
        return value
    if kind.is_integer:
        return int(value)
    if kind.is_binary:
        return bytes.fromhex(value[2:])
    if kind.is_timestamp:  # in UTC, which the connection has asked for
        return value.removesuffix("+00")
    return {"t": True, "f": False}.get(value, value) if kind.root is Root.BOOLEAN else value


def _fitting(value: object, kind: DataType) -> Decimal:
    try:
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
    except InvalidOperation:
        raise ValueError(f"'{value}'") from None


def _boolean(value: object) -> bool:
    if value in (0, 1, b"\x00", b"\x01"):
        return value in (1, b"\x01")
    raise ValueError(f"'{value!r}'")


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _time(value: object) -> time:
    if isinstance(value, timedelta):  # as MySQL gives it
        if not timedelta() <= value < _DAY:
            raise ValueError(f"'{value}'")
        return (datetime.min + value).time()
    return time.fromisoformat(str(value))


_converters: dict[Root, Callable[[object], object]] = {
    Root.BOOLEAN: _boolean,
    Root.DATE: lambda value: date.fromisoformat(str(value)),
    Root.TIME: _time,
    Root.FLOAT: lambda value: float(str(value)),
    Root.DOUBLE: lambda value: float(str(value)),
    Root.DECIMAL: lambda value: value,
}
