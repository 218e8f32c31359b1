"""JSON_QUERY: the object or array at a path of a JSON text."""

from __future__ import annotations

from parser.errors import PlanError
from parser.types import STRING, DataType, Root, array
from udf.arrays.arrays import RowError
from udf.json.lookup import (
    Empty,
    Failed,
    Lookup,
    all_rows,
    as_text,
    located,
    located_types,
    returning,
    word_of,
)
from udf.json.text import Json, write_json
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom
from udf.vector import Vector

_TEXTS = array(STRING)


def _query_returning(literals: Literals) -> DataType:
    literal = literals[2] if len(literals) > 2 else None
    kind = returning(literal, lambda t: t.is_string or t.same_as(_TEXTS), "JSON_QUERY")
    if kind.root is Root.ARRAY and "EMPTY OBJECT" in literals[4:]:
        raise PlanError("an empty object is no array: write EMPTY ARRAY")
    return kind


def _query_types(types: Types) -> tuple[DataType, ...] | None:
    return located_types(types) if len(types) in (2, 6) else None


@function(
    "JSON_QUERY",
    signature=Custom(
        _query_types, lambda t, literals: _query_returning(literals), "a JSON text and a path"
    ),
)
def json_query_kernel(
    ctx: KernelContext, document: Values, path: Values, *clauses: Values
) -> Vector:
    """JSON_QUERY(text, path [RETURNING type] [WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL] [ARRAY]
    WRAPPER] [NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR ON EMPTY] [… ON ERROR]): the object or
    array at the path as JSON, or as ARRAY<STRING>. A wrapper puts the result into an array: WITH
    UNCONDITIONAL (or plain WITH) always, WITH CONDITIONAL unless it is an array. Without a
    wrapper a scalar is an error; no value and an error give NULL by default. Error: ERROR ON
    EMPTY or ON ERROR.

    >>> JSON_QUERY('{"a": {"b": 1}}', '$.a')
    '{"b":1}'
    >>> JSON_QUERY('{"a": 1}', '$.a' WITH WRAPPER)
    '[1]'
    """
    words = [word_of(c) for c in clauses[1:]] or ["WITHOUT", "NULL", "NULL"]
    as_array = ctx.result_type.root is Root.ARRAY

    def ask(located: Lookup | None) -> object:
        return None if located is None else _query(located, words[0], words[1], words[2], as_array)

    return all_rows(ask, ctx, located(ctx, document, path))


_EMPTIES: dict[str, Json] = {"NULL": None, "EMPTY ARRAY": [], "EMPTY OBJECT": {}}


def _query(located: Lookup, wrapper: str, on_empty: str, on_error: str, as_array: bool) -> object:
    try:
        return _shaped(_structure_at(located, wrapper), as_array)
    except Empty:
        if on_empty == "ERROR":
            raise RowError("JSON_QUERY: there is nothing at the path") from None
        return _shaped(_EMPTIES[on_empty], as_array)
    except Failed as failure:
        if on_error == "ERROR":
            raise RowError(f"JSON_QUERY: {failure}") from None
        return _shaped(_EMPTIES[on_error], as_array and on_error != "EMPTY OBJECT")


def _structure_at(located: Lookup, wrapper: str) -> Json:
    value, lax = located.value()
    if (
        value is not None
        and wrapper != "WITHOUT"
        and not (wrapper == "WITH CONDITIONAL" and isinstance(value, list))
    ):
        value = [value]
    if isinstance(value, list | dict):
        return value
    if lax and value is None:
        raise Empty
    if lax and wrapper == "WITHOUT":
        raise Empty
    raise Failed("there is no object or array at the path")


def _shaped(value: Json, as_array: bool) -> object:
    if value is None:
        return None
    if not as_array:
        return write_json(value)
    if not isinstance(value, list):
        raise Failed("there is no array at the path")
    return [
        None if v is None else v if isinstance(v, str) else as_text(v) or write_json(v)
        for v in value
    ]
