"""JSON_EXISTS, IS JSON: whether something is at a path of a JSON text, and whether a text is
one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BOOLEAN, DataType
from udf.arrays.arrays import RowError
from udf.json.lookup import Failed, Lookup, all_rows, distinct, located, located_types, word_of
from udf.json.reading import DOUBTFUL, read_fast
from udf.json.text import NotJson, read_json
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import Custom, never_null, takes, text
from udf.vector import Vector


def _exists_types(types: Types) -> tuple[DataType, ...] | None:
    return located_types(types) if len(types) in (2, 3) and types[0].is_string else None


@function(
    "JSON_EXISTS",
    signature=Custom(_exists_types, lambda t, _: BOOLEAN, "a JSON text and a path"),
)
def json_exists_kernel(
    ctx: KernelContext, document: Values, path: Values, *clauses: Values
) -> Vector:
    """JSON_EXISTS(text, path [TRUE | FALSE | UNKNOWN | ERROR ON ERROR]): TRUE if there is a value
    other than null at the path. Invalid JSON, and no value at a strict path, are errors: FALSE
    by default. Error: ERROR ON ERROR.

    >>> JSON_EXISTS('{"a": 1}', '$.a')
    TRUE
    """
    word = word_of(clauses[0]) if clauses else "FALSE"

    def ask(located: Lookup | None) -> bool | None:
        if located is None:
            return None
        try:
            return located.value()[0] is not None
        except Failed as failure:
            if word == "ERROR":
                raise RowError(f"JSON_EXISTS: {failure}") from None
            return {"TRUE": True, "FALSE": False}.get(word)

    return all_rows(ask, ctx, located(ctx, document, path))


def is_json(document: str, kind: str) -> bool:
    """IS JSON for one value; `kind` is VALUE, SCALAR, ARRAY or OBJECT."""
    try:
        fast = read_fast(document)
        value = read_json(document) if fast is DOUBTFUL else fast
    except NotJson:
        return False
    shape = (
        "ARRAY" if isinstance(value, list) else "OBJECT" if isinstance(value, dict) else "SCALAR"
    )
    return kind in ("VALUE", shape)


@function("IS JSON", signature=takes(text, text, result=never_null(BOOLEAN)))
def is_json_kernel(ctx: KernelContext, document: Values, kind: Values) -> Vector:
    """text IS [NOT] JSON [VALUE | SCALAR | ARRAY | OBJECT]: TRUE if the text is JSON, and of this
    kind. FALSE for NULL.

    >>> '{"a": 1}' IS JSON OBJECT
    TRUE
    """
    word = word_of(kind)
    if isinstance(document, pa.Scalar):
        document = pa.repeat(document, ctx.num_rows)
    tests = distinct(lambda d: is_json(d, word), ctx, document)
    return Vector(pc.fill_null(tests.values, False), tests.errors)
