"""VARIANT: values with a shape of their own, parsed from JSON. A column holds them as JSON text in
one written form: keys in order, integers and exact numbers plain, other numbers as Java writes a
DOUBLE."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import cast

import pyarrow as pa

from parser.types import DataType, Root
from udf.arrays.arrays import RowError, map_text, row_errors
from udf.casts.texts import float_text
from udf.json.reading import DOUBTFUL, has_unique_keys, read_fast
from udf.json.text import Json, NotJson, quoted_json, read_json, write_json
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, boolean_or_null, text_or_null
from udf.vector import Vector

VARIANT = DataType(Root.VARIANT)
_TEXT = pa.string()
_DIGITS = 38
_LIMIT = 10**_DIGITS


def write_variant(value: Json) -> str:
    """The written form."""
    return write_json(value, _number, "utf-8")


def _number(value: int | Decimal) -> str:
    """Up to 38 digits without an exponent are exact; else it is a DOUBLE."""
    # The common case without a Decimal.
    if isinstance(value, int) and -_LIMIT < value < _LIMIT:
        return str(value)
    exact = Decimal(value)
    written = str(exact)
    # Text of at most 38 characters has at most 38 digits; the test below counts them exactly.
    if isinstance(value, Decimal) and "E" not in written and len(written) <= _DIGITS:
        return written.rstrip("0").rstrip(".") if "." in written else written
    if (
        isinstance(value, Decimal)
        and "E" not in str(value)
        and len(exact.as_tuple().digits) <= _DIGITS
    ):
        plain = f"{exact:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return float_text(float(exact))


class _Raw(str):
    """A number as it is written."""

    __slots__ = ()


_READER = json.JSONDecoder(parse_float=_Raw, parse_int=_Raw, parse_constant=_Raw)


def _rewritten(value: object) -> str:
    """Serializes a value that `_READER` decoded."""
    match value:
        case _Raw():
            return str(value)
        case str():
            return quoted_json(value)
        case list():
            return f"[{','.join(map(_rewritten, value))}]"
        case dict():
            return (
                "{" + ",".join(f"{quoted_json(k)}:{_rewritten(v)}" for k, v in value.items()) + "}"
            )
    return "null" if value is None else "true" if value else "false"


def _parse(document: str, duplicates: bool = False) -> str:
    try:
        value = read_fast(document)
        # `read_fast` keeps the last of equal keys: unless that is wanted, a document with doubled
        # keys is read exactly, which refuses it.
        if value is DOUBTFUL or not (duplicates or has_unique_keys(document, value)):
            value = read_json(document, unique=not duplicates)
        return write_variant(cast(Json, value))
    except NotJson as error:
        raise RowError(str(error)) from None


def _try_parse(document: str, duplicates: bool = False) -> str | None:
    try:
        return _parse(document, duplicates)
    except RowError:
        return None


def _types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (1, 2):
        return None
    return (text_or_null.cast(types[0]), *[boolean_or_null.cast(t) for t in types[1:]])


def _parsed(types: Types, literals: Literals) -> DataType:
    return VARIANT.with_nullable(any(t.nullable for t in types))


@function("PARSE_JSON", signature=Custom(_types, _parsed, "a JSON text and a BOOLEAN"))
def parse_json(ctx: KernelContext, document: Values, *duplicates: Values) -> Vector:
    """PARSE_JSON(text [, duplicates]): the JSON as a VARIANT, whose parts are read with
    value['key'] and value[index]. Of equal keys the last one counts if `duplicates` is TRUE. Error:
    a text that is no JSON; equal keys otherwise.

    >>> PARSE_JSON('{"b": 1.50, "a": [2]}')
    '{"a":[2],"b":1.5}'
    """
    return Vector(*row_errors(ctx.num_rows, _parse, _TEXT, document, *duplicates))


@function(
    "TRY_PARSE_JSON", signature=Custom(_types, lambda t, _: VARIANT, "a JSON text and a BOOLEAN")
)
def try_parse_json(ctx: KernelContext, document: Values, *duplicates: Values) -> Values:
    """TRY_PARSE_JSON(text [, duplicates]): As PARSE_JSON, but NULL in place of an error.

    >>> TRY_PARSE_JSON('bad')
    NULL
    """
    return map_text(ctx.num_rows, _try_parse, _TEXT, document, *duplicates)


def _item(document: str, key: str | int) -> str | None:
    # Numbers stay as written, so that a part has the digits of the whole.
    value = _READER.decode(document)
    if isinstance(key, str):
        if not isinstance(value, dict):
            raise RowError("a key asks for a part of a VARIANT that is no object")
        return _rewritten(value[key]) if key in value else None
    if not isinstance(value, list):
        raise RowError("an index asks for a part of a VARIANT that is no array")
    return _rewritten(value[key - 1]) if 1 <= key <= len(value) else None


def item_of_variant(ctx: KernelContext, subject: Values, key: Values) -> Vector:
    """The member of an object or the element of an array, from 1; NULL where there is none. Error:
    the value is of another shape."""
    return Vector(*row_errors(ctx.num_rows, _item, _TEXT, subject, key))
