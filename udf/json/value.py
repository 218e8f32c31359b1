"""JSON_VALUE: the string, number or truth value at a path of a JSON text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root
from udf.arrays.arrays import RowError, errors_of, rows_of, valid
from udf.json.lookup import (
    Empty,
    Failed,
    Lookup,
    all_rows,
    as_text,
    located,
    located_types,
    pieces,
    returning,
    word_of,
)
from udf.json.reading import DOUBTFUL, NOTHING
from udf.json.text import Json, write_json
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom
from udf.vector import Vector


def _scalar_at(located: Lookup) -> Json:
    value, lax = located.value()
    if value is None or isinstance(value, list | dict):
        # Lax: an object or array at the path is "empty", in strict mode an error.
        if lax:
            raise Empty
        raise Failed("there is no scalar at the path")
    return value


def json_value(document: str, path: str) -> str | None:
    """The text of a string, number or boolean at the path; None for anything else and for what is
    no JSON."""
    try:
        return as_text(_scalar_at(Lookup(document, path)))
    except (Failed, Empty):
        return None


def _as(kind: DataType) -> Callable[[Json], object]:
    """The value as RETURNING asks for it. RowError for one of another kind: as Flink, numbers are
    not converted."""

    def convert(value: Json) -> object:
        # bool is a subclass of int in Python, hence tested apart.
        fits = {
            Root.BOOLEAN: isinstance(value, bool),
            Root.INT: isinstance(value, int)
            and not isinstance(value, bool)
            and -(2**31) <= value < 2**31,
            Root.DOUBLE: isinstance(value, Decimal),
        }
        if not fits[kind.root]:
            raise RowError(f"JSON value {write_json(value)[:60]} is not a {kind.plain}")
        return float(value) if isinstance(value, Decimal) else value

    return as_text if kind.is_string else convert


def _value_returning(literals: Literals) -> DataType:
    roots = (Root.CHAR, Root.VARCHAR, Root.BOOLEAN, Root.INT, Root.DOUBLE)
    return returning(
        literals[2] if len(literals) > 2 else None, lambda t: t.root in roots, "JSON_VALUE"
    )


def _value_types(types: Types) -> tuple[DataType, ...] | None:
    return located_types(types) if len(types) in (2, 7) else None


@function(
    "JSON_VALUE",
    signature=Custom(
        _value_types, lambda t, literals: _value_returning(literals), "a JSON text and a path"
    ),
)
def json_value_kernel(
    ctx: KernelContext, document: Values, path: Values, *clauses: Values
) -> Vector:
    """JSON_VALUE(text, path [RETURNING type] [NULL | ERROR | DEFAULT value ON EMPTY] [NULL | ERROR
    | DEFAULT value ON ERROR]): the string, number or boolean at the path, as STRING or as the
    type, which may be STRING, BOOLEAN, INT or DOUBLE. No value at the path is an error if the
    path is `strict`, the default, and an empty result if it begins with `lax`; both give NULL by
    default. Error: ERROR ON EMPTY or ON ERROR, or a value that is not of the type.

    >>> JSON_VALUE('{"a": {"b": [1, 2]}}', '$.a.b[1]')
    '2'
    >>> JSON_VALUE('{"a": 1}', 'lax $.b' DEFAULT 'none' ON EMPTY)
    'none'
    """
    convert = _as(ctx.result_type)
    # Calls without clauses have two arguments; those with them seven, in pairs of word and default.
    _, on_empty, empty, on_error, error = clauses or (
        None,
        *(pa.scalar("NULL"), pa.scalar(None)) * 2,
    )
    plain = not clauses or (word_of(on_empty) == "NULL" and word_of(on_error) == "NULL")
    # The common case: a constant path, and NULL for whatever goes wrong.
    if plain and isinstance(path, pa.Scalar) and isinstance(document, pa.Array) and path.is_valid:
        return _plain_values(ctx, document, path.as_py(), convert)
    words = word_of(on_empty), word_of(on_error)
    return all_rows(
        lambda f, e, r: None if f is None else _value(f, convert, (words[0], e), (words[1], r)),
        ctx, located(ctx, document, path), rows_of(empty), rows_of(error),
    )  # fmt: skip


def _plain_values(
    ctx: KernelContext, document: pa.Array, path: str, convert: Callable[[Json], object]
) -> Vector:
    """Computes JSON_VALUE without clauses: what is no scalar is NULL."""
    mapped: list[object] = []
    failures: dict[int, str] = {}
    for part, results, lax in pieces(document.drop_null().to_pylist(), path):
        quick = _quick(results, ctx.result_type)
        # A whole piece at once if nothing in it needs the slow way.
        if quick is not None:
            mapped += quick
            continue
        for given, value in zip(part, results, strict=True):
            try:
                mapped.append(_value(Lookup(given, path, lax, value), convert, _NULL, _NULL))
            except RowError as error:
                failures[len(mapped)] = str(error)
                mapped.append(None)
    if not document.null_count:
        return Vector(pa.array(mapped, ctx.result_type.arrow), errors_of(failures, len(mapped)))
    # `mapped` has no rows for NULL documents: spread it over the batch, the last entry being NULL.
    rows = np.flatnonzero(valid(document, len(document)))
    spread = np.full(len(document), len(mapped))
    spread[rows] = np.arange(len(mapped))
    values = pa.array([*mapped, None], ctx.result_type.arrow).take(pa.array(spread))
    return Vector(
        values, errors_of({int(rows[i]): reason for i, reason in failures.items()}, len(values))
    )


_NULL = ("NULL", None)


def _scalar_text(value: object) -> str | None:
    return as_text(value) if isinstance(value, bool | int | Decimal) else None


def _quick(values: list[object], kind: DataType) -> list[object] | None:
    """Values of which none needs a second look: texts and numbers as texts, integers as INT; NULL
    for what is no scalar."""
    types = set(map(type, values))
    if kind.is_string:
        if types == {str}:
            return values
        if DOUBTFUL in values:
            # DOUBTFUL marks what the fast reader left to the exact one.
            return None
        return [v if type(v) is str else _scalar_text(v) for v in values]
    # Types are compared exactly: True is an int for isinstance.
    if kind.root is Root.INT and types <= _INT_OR_NONE:
        fits = all(type(v) is not int or -(2**31) <= v < 2**31 for v in values)
        return [v if type(v) is int else None for v in values] if fits else None
    return None


_INT_OR_NONE = {int, list, dict, type(None), type(NOTHING)}


def _value(
    located: Lookup,
    convert: Callable[[Json], object],
    empty: tuple[str, object],
    error: tuple[str, object],
) -> object:
    try:
        value = _scalar_at(located)
    except Empty:
        if empty[0] == "ERROR":
            raise RowError("JSON_VALUE: there is nothing at the path") from None
        return empty[1] if empty[0] == "DEFAULT" else None
    except Failed as failure:
        if error[0] == "ERROR":
            raise RowError(f"JSON_VALUE: {failure}") from None
        # A default is given as it is, not converted by RETURNING.
        return error[1] if error[0] == "DEFAULT" else None
    return convert(value)
