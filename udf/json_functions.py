"""JSON_VALUE over plain paths: `$.a.b[0]['c']`."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

import pyarrow as pa

from parser.errors import PlanError
from parser.types import STRING, DataType
from udf.arrays import RowError, map_text, row_errors
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import takes, text
from udf.vector import Vector

_STEP = re.compile(
    r"\.([A-Za-z_$][\w$-]*)|\[\s*([0-9]+)\s*\]|\[\s*'((?:[^'\\]|\\.)*)'\s*\]|\[\s*\"((?:[^\"\\]|\\.)*)\"\s*\]"
)


@lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[str | int, ...]:
    """The steps of a path, names and positions; RowError for a path beyond these."""
    rest = path.strip().removeprefix("lax ").removeprefix("strict ").strip()
    if not rest.startswith("$"):
        raise RowError(f"'{path}' is not a JSON path that is supported")
    steps: list[str | int] = []
    at = 1
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise RowError(f"'{path}' is not a JSON path that is supported")
        name, position, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(int(position) if position is not None else name if name is not None else _unescaped(quoted))
        at = found.end()
    return tuple(steps)


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


class _Constant(Exception):
    """NaN and Infinity are not JSON."""


def _refuse(name: str) -> object:
    raise _Constant(name)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse)


def json_value(document: str, path: str) -> str | None:
    """The text of a string, number or boolean at the path; NULL for anything else and for what is no JSON."""
    steps = parse_path(path)
    try:
        found, _ = _DECODER.raw_decode(document.lstrip(" \t\r\n"))  # what follows the first value is ignored
    except (ValueError, InvalidOperation, RecursionError, _Constant):
        return None
    for step in steps:
        match found:
            case dict() if step in found:
                found = found[step]
            case list() if isinstance(step, int) and step < len(found):
                found = found[step]
            case _:
                return None
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, Decimal):
        return str(found if found else abs(found))
    return found if isinstance(found, str) else None


def _json_result(types: Types, literals: Literals) -> DataType:
    if isinstance(literals[1], str):
        try:
            parse_path(literals[1])
        except RowError as error:
            raise PlanError(str(error), hint="use names and positions: $.a.b[0]") from None
    return STRING


@function("JSON_VALUE", signature=takes(text, text, result=_json_result))
def json_value_kernel(ctx: KernelContext, document: Values, path: Values) -> Values | Vector:
    """JSON_VALUE(text, path): the scalar at the path as a string; NULL if there is none or the text is no JSON."""
    if isinstance(path, pa.Scalar):
        return map_text(ctx.num_rows, json_value, pa.string(), document, path)
    return Vector(*row_errors(ctx.num_rows, json_value, pa.string(), document, path))
