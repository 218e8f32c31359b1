"""JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON: what is at a path of a JSON text.

The clauses of a call come as literals behind its arguments: the type after RETURNING, the wrapper, and what to do ON EMPTY
and ON ERROR ('NULL', 'ERROR', 'DEFAULT', 'EMPTY ARRAY', …) with the value of DEFAULT behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.datatypes import parse_type
from parser.errors import PlanError
from parser.types import BOOLEAN, STRING, DataType, Root, array
from udf.arrays import RowError, errors_of, rows_of, valid
from udf.json_path import parse_path
from udf.json_reading import DOUBTFUL, NOTHING, found_at, read_fast
from udf.json_text import BadPath, Json, NotFound, NotJson, number_text, read_json, write_json
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, never_null, takes, text
from udf.vector import Vector

_TEXTS = array(STRING)


class _Failed(Exception):
    """There is no value because of an error, which ON ERROR handles."""


class _Empty(Exception):
    """There is nothing at a lax path, which ON EMPTY handles."""


def _at(document: str, path: str) -> tuple[Json, bool]:
    """What is at the path, and whether it is lax."""
    try:
        parsed = parse_path(path)
    except BadPath as error:
        raise _Failed(str(error)) from None
    try:
        return parsed.find(read_json(document)), parsed.lax
    except (NotFound, NotJson, BadPath) as error:
        if parsed.lax:
            return None, True
        raise _Failed(str(error)) from None


class _Missing(_Failed):
    """There is nothing at a strict path; why is found out for those who ask."""

    def __init__(self, document: str, path: str) -> None:
        super().__init__(document, path)
        self.document, self.path = document, path

    def __str__(self) -> str:
        try:
            _at(self.document, self.path)
        except _Failed as failure:
            return str(failure)
        return "there is nothing at the path"


@dataclass(slots=True)
class _Found:
    """What is at a path of a text, where it is known already."""

    document: str
    path: str
    lax: bool = False
    held: object = DOUBTFUL

    def value(self) -> tuple[Json, bool]:
        """As `_at`."""
        if self.held is DOUBTFUL:
            return _at(self.document, self.path)
        if self.held is NOTHING:
            if self.lax:
                return None, True
            raise _Missing(self.document, self.path)
        return cast(Json, self.held), self.lax


def _all_found(documents: Sequence[str], path: str) -> Iterator[_Found]:
    for part, held, lax in _pieces(documents, path):
        for document, value in zip(part, held, strict=True):
            yield _Found(document, path, lax, value)


def _pieces(documents: Sequence[str], path: str) -> Iterator[tuple[Sequence[str], list[object], bool]]:
    """Texts and what is at the path of each in pieces, so that not many objects live at a time: the collector would look
    through all of them; and whether the path is lax."""
    try:
        parsed = parse_path(path)
    except BadPath:
        yield documents, [DOUBTFUL] * len(documents), False
        return
    for start in range(0, len(documents), _TOGETHER):
        part = documents[start : start + _TOGETHER]
        yield part, found_at(part, parsed), parsed.lax


_TOGETHER = 256


def _scalar_at(found: _Found) -> Json:
    value, lax = found.value()
    if value is None or isinstance(value, list | dict):
        if lax:
            raise _Empty
        raise _Failed("there is no scalar at the path")
    return value


def _as_text(value: Json) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return number_text(value)
    return value if isinstance(value, str) else None


def json_value(document: str, path: str) -> str | None:
    """The text of a string, number or boolean at the path; None for anything else and for what is no JSON."""
    try:
        return _as_text(_scalar_at(_Found(document, path)))
    except (_Failed, _Empty):
        return None


def _as(kind: DataType) -> Callable[[Json], object]:
    """The value as RETURNING asks for it. RowError for one of another kind: as Flink, numbers are not converted."""

    def convert(value: Json) -> object:
        fits = {
            Root.BOOLEAN: isinstance(value, bool),
            Root.INT: isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31,
            Root.DOUBLE: isinstance(value, Decimal),
        }
        if not fits[kind.root]:
            raise RowError(f"JSON value {write_json(value)[:60]} is not a {kind.plain}")
        return float(value) if isinstance(value, Decimal) else value

    return _as_text if kind.is_string else convert


def _returning(literal: object, allowed: Callable[[DataType], bool], name: str) -> DataType:
    kind = parse_type(literal) if isinstance(literal, str) else STRING
    if not allowed(kind):
        raise PlanError(f"{name} cannot return {kind.plain}")
    return kind.with_nullable(True)


def _value_returning(literals: Literals) -> DataType:
    roots = (Root.CHAR, Root.VARCHAR, Root.BOOLEAN, Root.INT, Root.DOUBLE)
    return _returning(literals[2] if len(literals) > 2 else None, lambda t: t.root in roots, "JSON_VALUE")


def _value_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) in (2, 7) and all(t.is_string for t in types[:2]) else None


@function(
    "JSON_VALUE",
    signature=Custom(_value_types, lambda t, literals: _value_returning(literals), "a JSON text and a path"),
)
def json_value_kernel(ctx: KernelContext, document: Values, path: Values, *clauses: Values) -> Vector:
    """JSON_VALUE(text, path [RETURNING type] [NULL | ERROR | DEFAULT value ON EMPTY] [NULL | ERROR | DEFAULT value ON
    ERROR]): the string, number or boolean at the path, as STRING or as the type, which may be STRING, BOOLEAN, INT or
    DOUBLE. A path is `strict` (nothing at it is an error) unless it begins with `lax` (nothing at it is emptiness); both
    give NULL by default. Error: ERROR, or a value that is not of the type.

    >>> JSON_VALUE('{"a": {"b": [1, 2]}}', '$.a.b[1]')
    '2'
    >>> JSON_VALUE('{"a": 1}', 'lax $.b' DEFAULT 'none' ON EMPTY)
    'none'
    """
    convert = _as(ctx.result_type)
    _, on_empty, empty, on_error, error = clauses or (None, *(pa.scalar("NULL"), pa.scalar(None)) * 2)
    plain = not clauses or (_word(on_empty) == "NULL" and _word(on_error) == "NULL")
    if plain and isinstance(path, pa.Scalar) and isinstance(document, pa.Array) and path.is_valid:
        return _plain_values(ctx, document, path.as_py(), convert)
    words = _word(on_empty), _word(on_error)
    return _rows(
        lambda f, e, r: None if f is None else _value(f, convert, (words[0], e), (words[1], r)),
        ctx, _located(ctx, document, path), rows_of(empty), rows_of(error),
    )  # fmt: skip


def _plain_values(ctx: KernelContext, document: pa.Array, path: str, convert: Callable[[Json], object]) -> Vector:
    """Without clauses: what is no scalar is NULL."""
    mapped: list[object] = []
    failures: dict[int, str] = {}
    for part, held, lax in _pieces(document.drop_null().to_pylist(), path):
        quick = _quick(held, ctx.result_type)
        if quick is not None:
            mapped += quick
            continue
        for given, value in zip(part, held, strict=True):
            try:
                mapped.append(_value(_Found(given, path, lax, value), convert, _NULL, _NULL))
            except RowError as error:
                failures[len(mapped)] = str(error)
                mapped.append(None)
    if not document.null_count:
        return Vector(pa.array(mapped, ctx.result_type.arrow), errors_of(failures, len(mapped)))
    rows = np.flatnonzero(valid(document, len(document)))
    spread = np.full(len(document), len(mapped))
    spread[rows] = np.arange(len(mapped))
    values = pa.array([*mapped, None], ctx.result_type.arrow).take(pa.array(spread))
    return Vector(values, errors_of({int(rows[i]): reason for i, reason in failures.items()}, len(values)))


_NULL = ("NULL", None)


def _quick(held: list[object], kind: DataType) -> list[object] | None:
    """Values of which none needs a second look: texts and numbers as texts, integers as INT; NULL for what is no scalar."""
    types = set(map(type, held))
    if kind.is_string:
        if types == {str}:
            return held
        if DOUBTFUL in held:
            return None
        return [v if type(v) is str else _as_text(v) if type(v) in _SCALARS else None for v in held]  # type: ignore[arg-type]
    if kind.root is Root.INT and types <= _INT_OR_NONE:
        fits = all(type(v) is not int or -(2**31) <= v < 2**31 for v in held)
        return [v if type(v) is int else None for v in held] if fits else None
    return None


_SCALARS = (bool, int, Decimal)
_INT_OR_NONE = {int, list, dict, type(None), type(NOTHING)}


def _located(ctx: KernelContext, document: Values, path: Values) -> Iterator[_Found | None]:
    """What is at the path for each row, None where an argument is NULL."""
    if isinstance(path, pa.Scalar) and path.is_valid and isinstance(document, pa.Array):
        found = _all_found(document.drop_null().to_pylist(), path.as_py())
        if not document.null_count:
            return found
        return (next(found) if present else None for present in document.is_valid().to_pylist())
    pairs = zip(range(ctx.num_rows), rows_of(document), rows_of(path), strict=False)
    return (None if d is None or p is None else _Found(str(d), str(p)) for _, d, p in pairs)


def _value(
    found: _Found, convert: Callable[[Json], object], empty: tuple[str, object], error: tuple[str, object]
) -> object:
    try:
        value = _scalar_at(found)
    except _Empty:
        if empty[0] == "ERROR":
            raise RowError("JSON_VALUE: there is nothing at the path") from None
        return empty[1] if empty[0] == "DEFAULT" else None
    except _Failed as failure:
        if error[0] == "ERROR":
            raise RowError(f"JSON_VALUE: {failure}") from None
        return error[1] if error[0] == "DEFAULT" else None
    return convert(value)


def _word(values: Values) -> str:
    return str(next(iter(rows_of(values)), "NULL"))


def _distinct(function: Callable[[str], object], ctx: KernelContext, document: pa.Array) -> Vector:
    """`function` once per distinct document, with its errors."""
    encoded = document.dictionary_encode()
    mapped, failures = _guarded(function, [(d,) for d in encoded.dictionary.to_pylist()])
    values = pa.array(mapped, ctx.result_type.arrow).take(encoded.indices)
    if not failures:
        return Vector(values)
    rows = {i: failures[c] for i, c in enumerate(encoded.indices.to_pylist()) if c in failures}
    return Vector(values, errors_of(rows, len(values)))


def _rows(function: Callable[..., object], ctx: KernelContext, *values: Iterable[object]) -> Vector:
    """`function` of every row, NULL included."""
    mapped, failures = _guarded(function, zip(*values, strict=False))
    return Vector(pa.array(mapped, ctx.result_type.arrow), errors_of(failures, ctx.num_rows))


def _guarded(
    function: Callable[..., object], rows: Iterable[tuple[object, ...]]
) -> tuple[list[object], dict[int, str]]:
    mapped: list[object] = []
    failures: dict[int, str] = {}
    for i, row in enumerate(rows):
        try:
            mapped.append(function(*row))
        except RowError as error:
            failures[i] = str(error)
            mapped.append(None)
    return mapped, failures


def _query_returning(literals: Literals) -> DataType:
    literal = literals[2] if len(literals) > 2 else None
    kind = _returning(literal, lambda t: t.is_string or t.same_as(_TEXTS), "JSON_QUERY")
    if kind.root is Root.ARRAY and "EMPTY OBJECT" in literals[4:]:
        raise PlanError("an empty object is no array: write EMPTY ARRAY")
    return kind


def _query_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) in (2, 6) and all(t.is_string for t in types) else None


@function(
    "JSON_QUERY",
    signature=Custom(_query_types, lambda t, literals: _query_returning(literals), "a JSON text and a path"),
)
def json_query_kernel(ctx: KernelContext, document: Values, path: Values, *clauses: Values) -> Vector:
    """JSON_QUERY(text, path [RETURNING type] [WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL] [ARRAY] WRAPPER] [NULL | EMPTY
    ARRAY | EMPTY OBJECT | ERROR ON EMPTY] [… ON ERROR]): the object or array at the path as JSON, or as ARRAY<STRING>. A
    wrapper puts what is found into an array: WITH UNCONDITIONAL (or plain WITH) everything, WITH CONDITIONAL what is no
    array yet. Without one a scalar is an error; both cases give NULL by default. Error: ERROR.

    >>> JSON_QUERY('{"a": {"b": 1}}', '$.a')
    '{"b":1}'
    >>> JSON_QUERY('{"a": 1}', '$.a' WITH WRAPPER)
    '[1]'
    """
    words = [_word(c) for c in clauses[1:]] or ["WITHOUT", "NULL", "NULL"]
    as_array = ctx.result_type.root is Root.ARRAY

    def ask(found: _Found | None) -> object:
        return None if found is None else _query(found, words[0], words[1], words[2], as_array)

    return _rows(ask, ctx, _located(ctx, document, path))


_EMPTIES: dict[str, Json] = {"NULL": None, "EMPTY ARRAY": [], "EMPTY OBJECT": {}}


def _query(found: _Found, wrapper: str, on_empty: str, on_error: str, as_array: bool) -> object:
    try:
        return _shaped(_structure_at(found, wrapper), as_array)
    except _Empty:
        if on_empty == "ERROR":
            raise RowError("JSON_QUERY: there is nothing at the path") from None
        return _shaped(_EMPTIES[on_empty], as_array)
    except _Failed as failure:
        if on_error == "ERROR":
            raise RowError(f"JSON_QUERY: {failure}") from None
        return _shaped(_EMPTIES[on_error], as_array and on_error != "EMPTY OBJECT")


def _structure_at(found: _Found, wrapper: str) -> Json:
    value, lax = found.value()
    if value is not None and wrapper != "WITHOUT" and not (wrapper == "WITH CONDITIONAL" and isinstance(value, list)):
        value = [value]
    if isinstance(value, list | dict):
        return value
    if lax and value is None:
        raise _Empty
    if lax and wrapper == "WITHOUT":
        raise _Empty
    raise _Failed("there is no object or array at the path")


def _shaped(value: Json, as_array: bool) -> object:
    if value is None:
        return None
    if not as_array:
        return write_json(value)
    if not isinstance(value, list):
        raise _Failed("there is no array at the path")
    return [None if v is None else v if isinstance(v, str) else _as_text(v) or write_json(v) for v in value]


def _exists_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) in (2, 3) and all(t.is_string for t in types) else None


@function(
    "JSON_EXISTS",
    signature=Custom(_exists_types, lambda t, _: BOOLEAN, "a JSON text and a path"),
)
def json_exists_kernel(ctx: KernelContext, document: Values, path: Values, *clauses: Values) -> Vector:
    """JSON_EXISTS(text, path [TRUE | FALSE | UNKNOWN | ERROR ON ERROR]): whether there is something other than null at the
    path. A text that is no JSON, and nothing at a strict path, are errors: FALSE by default. Error: ERROR.

    >>> JSON_EXISTS('{"a": 1}', '$.a')
    TRUE
    """
    word = _word(clauses[0]) if clauses else "FALSE"

    def ask(found: _Found | None) -> bool | None:
        if found is None:
            return None
        try:
            return found.value()[0] is not None
        except _Failed as failure:
            if word == "ERROR":
                raise RowError(f"JSON_EXISTS: {failure}") from None
            return {"TRUE": True, "FALSE": False}.get(word)

    return _rows(ask, ctx, _located(ctx, document, path))


def is_json(document: str, kind: str) -> bool:
    """IS JSON for one value; `kind` is VALUE, SCALAR, ARRAY or OBJECT."""
    try:
        fast = read_fast(document)
        found = read_json(document) if fast is DOUBTFUL else fast
    except NotJson:
        return False
    shape = "ARRAY" if isinstance(found, list) else "OBJECT" if isinstance(found, dict) else "SCALAR"
    return kind in ("VALUE", shape)


@function("IS JSON", signature=takes(text, text, result=never_null(BOOLEAN)))
def is_json_kernel(ctx: KernelContext, document: Values, kind: Values) -> Vector:
    """text IS [NOT] JSON [VALUE | SCALAR | ARRAY | OBJECT]: whether a text is JSON, and of this kind. FALSE for NULL.

    >>> '{"a": 1}' IS JSON OBJECT
    TRUE
    """
    word = _word(kind)
    if isinstance(document, pa.Scalar):
        document = pa.repeat(document, ctx.num_rows)
    found = _distinct(lambda d: is_json(d, word), ctx, document)
    return Vector(pc.fill_null(found.values, False), found.errors)
