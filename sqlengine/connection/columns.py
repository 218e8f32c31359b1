"""Columns of Python's objects as columns of tables: their SQL types, and rows as Arrow arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from parser.errors import ServiceError, SqlError
from parser.types import Column, DataType, Root, Schema
from parser.writer.names import backticked
from sqlengine.batch import Batch
from sqlengine.functions.convert import row_values, to_column
from sqlengine.functions.hints import BadSignature, fields_of, sql_type
from udf.user import type_named

_SIMPLE: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20, 0)",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.binary(): "BYTES",
    pa.large_binary(): "BYTES",
    pa.binary_view(): "BYTES",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def sql_types(schema: pa.Schema, known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Returns the SQL types of Arrow columns by name, `known` of some. ServiceError for a column
    that has none, or whose name is none, or that of another."""
    found: dict[str, str] = {}
    for field in schema:
        if not field.name:
            raise ServiceError("a column has no name", hint="give it one before")
        if field.name in found:
            raise ServiceError(f"two columns are called '{field.name}'", hint="rename one before")
        found[field.name] = known.get(field.name) or _sql_type(field.name, field.type)
    return found


def _sql_type(name: str, kind: pa.DataType) -> str:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pa.types.is_dictionary(kind):
        return _sql_type(name, kind.value_type)
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"BINARY({kind.byte_width})"
    if pa.types.is_timestamp(kind):
        return f"TIMESTAMP{'_LTZ' if kind.tz else ''}({_DIGITS[kind.unit]})"
    if pa.types.is_time(kind):
        return f"TIME({_DIGITS[kind.unit]})"
    if pa.types.is_duration(kind):
        return "INTERVAL SECOND(3)"
    return _nested(name, kind)


def _nested(name: str, kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        inner = ", ".join(
            f"{backticked(f.name)} {_sql_type(f'{name}.{f.name}', f.type)}" for f in fields
        )
        return f"ROW<{inner}>"
    if pa.types.is_map(kind):
        return f"MAP<{_sql_type(name, kind.key_type)}, {_sql_type(name, kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"ARRAY<{_sql_type(name, kind.value_type)}>"
    column = name.partition(".")[0]
    raise ServiceError(
        f"column '{name}' is {kind}, which no SQL type holds",
        hint=f"cast it before, or say what it is: schema={{'{column}': 'STRING', …}}",
    )


def types_of_row(row: object) -> dict[str, str]:
    """Returns the SQL types of a row's columns: by the hints of a dataclass or a NamedTuple, or by
    the values of a mapping. ServiceError where they do not say it."""
    hints = fields_of(type(row))
    if hints:
        return {name: _hinted(name, hint) for name, hint in hints}
    if not isinstance(row, Mapping):
        raise ServiceError(
            f"a row is a mapping, a dataclass or a NamedTuple, not {type(row).__name__}",
            hint="say the columns of tuples: schema={'id': 'BIGINT', …}",
        )
    return {str(name): _valued(str(name), value) for name, value in row.items()}


def _hinted(name: str, hint: object) -> str:
    try:
        return sql_type(hint)[0]
    except BadSignature as error:
        raise ServiceError(f"column '{name}': {error.message}", hint=error.hint) from None


def _valued(name: str, value: object) -> str:
    if isinstance(value, Decimal):
        return "DECIMAL(38, 18)"
    try:
        kind = pa.infer_type([value])
    except (pa.ArrowException, TypeError, ValueError):
        kind = pa.null()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _hinted(name, type(value))
    if pa.types.is_null(kind):
        raise ServiceError(
            f"the type of column '{name}' is not known from {repr(value)[:60]} in the first row",
            hint=f"say it: schema={{'{name}': 'STRING', …}}",
        )
    return _sql_type(name, kind)


def schema_of(types: Mapping[str, str]) -> Schema:
    """Returns columns with these SQL types. ServiceError for a type that does not exist."""
    return Schema(tuple(Column(name, _type(name, text)) for name, text in types.items()))


def _type(name: str, text: str) -> DataType:
    try:
        return type_named(text)
    except SqlError as error:
        raise ServiceError(
            f"column '{name}' has no type '{text}'", detail=error.message, hint=error.hint
        ) from None


def columns_of_rows(rows: Sequence[object], schema: Schema, number: int) -> list[pa.Array]:
    """Returns rows as columns; `number`: that of the first. ServiceError names the row and the
    column of a value that does not fit."""
    values = [_values(row, schema.names, number + i) for i, row in enumerate(rows)]
    columns = []
    for i, column in enumerate(schema):
        kind = column.type
        array, failures = to_column(
            [row[i] for row in values], kind.arrow, str(kind), null=kind.nullable
        )
        for at, _ in failures:
            value = repr(values[at][i])[:100]
            raise ServiceError(f"row {number + at}: '{column.name}' is {value}, which is no {kind}")
        columns.append(array)
    return columns


def _values(row: object, names: Sequence[str], number: int) -> list[object]:
    try:
        return list(row_values(row, names))
    except ValueError:
        raise ServiceError(
            f"row {number} does not have the columns of its table: {repr(row)[:200]}",
            hint=f"columns: {', '.join(names)}",
        ) from None


def columns_of_arrow(rows: pa.RecordBatch | pa.Table, schema: Schema) -> list[pa.Array]:
    """Returns Arrow columns as these types hold them. ServiceError for values that do not fit."""
    return [_cast(rows.column(c.name), c) for c in schema]


def batch_of(rows: pa.RecordBatch | pa.Table) -> Batch:
    """Returns Arrow rows with the SQL types of their columns. ServiceError for a column that has
    none."""
    schema = schema_of(sql_types(rows.schema))
    return Batch(schema, tuple(columns_of_arrow(rows, schema)), rows.num_rows)


def _cast(column: pa.Array | pa.ChunkedArray, to: Column) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # of no chunk, or too large for one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if to.type.root is Root.INTERVAL_DAY_TIME and pa.types.is_duration(array.type):
            array = array.cast(pa.duration("ms"))
        return array if array.type == to.type.arrow else array.cast(to.type.arrow)
    except pa.ArrowException as error:
        detail = " ".join(str(error).split())[:300]
        raise ServiceError(
            f"column '{to.name}' has values that are no {to.type}", detail=detail
        ) from None
