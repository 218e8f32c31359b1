"""Path lookup for the JSON functions.

The clauses of a call come as literals behind its arguments: the type after RETURNING, the wrapper,
and what to do ON EMPTY and ON ERROR ('NULL', 'ERROR', 'DEFAULT', 'EMPTY ARRAY', …) with the value
of DEFAULT behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import pyarrow as pa

from parser.errors import PlanError
from parser.grammar.datatypes import parse_type
from parser.types import STRING, DataType, Root
from udf.arrays.arrays import RowError, errors_of, rows_of
from udf.json.path import parse_path
from udf.json.reading import DOUBTFUL, NOTHING, values_at
from udf.json.text import BadPath, Json, NotFound, NotJson, number_text, read_json
from udf.registry import KernelContext, Types, Values
from udf.vector import Vector


def located_types(types: Types) -> tuple[DataType, ...] | None:
    """A JSON text, or a number or VARIANT that is written as one, and what is asked of it in
    texts."""
    if len(types) < 2 or not types[1].is_string:
        return None
    document = types[0]
    if document.root in (Root.DECIMAL, Root.VARIANT):
        return (
            STRING.with_nullable(document.nullable) if document.root is Root.DECIMAL else document,
            *types[1:],
        )
    return tuple(types) if document.is_string else None


class Failed(Exception):
    """An error in place of a value, which ON ERROR handles."""


class Empty(Exception):
    """No value at a lax path, which ON EMPTY handles."""


def _at(document: str, path: str) -> tuple[Json, bool]:
    """Returns the value at the path, and whether the path is lax. Raises Failed."""
    try:
        parsed = parse_path(path)
    except BadPath as error:
        raise Failed(str(error)) from None
    try:
        return parsed.find(read_json(document)), parsed.lax
    except (NotFound, NotJson, BadPath) as error:
        # At a lax path all that goes wrong is emptiness.
        if parsed.lax:
            return None, True
        raise Failed(str(error)) from None


class _Missing(Failed):
    """No value at a strict path; the reason is computed on demand."""

    def __init__(self, document: str, path: str) -> None:
        super().__init__(document, path)
        self.document, self.path = document, path

    def __str__(self) -> str:
        try:
            # The slow lookup only when somebody reads the message: most strict failures become NULL
            # unseen.
            _at(self.document, self.path)
        except Failed as failure:
            return str(failure)
        return "there is nothing at the path"


@dataclass(slots=True)
class Lookup:
    """The value at a path of a text, where it is known already."""

    document: str
    path: str
    lax: bool = False
    held: object = DOUBTFUL

    def value(self) -> tuple[Json, bool]:
        """Returns the value at the path, and whether the path is lax. Raises Failed."""
        if self.held is DOUBTFUL:
            return _at(self.document, self.path)
        if self.held is NOTHING:
            if self.lax:
                return None, True
            raise _Missing(self.document, self.path)
        return cast(Json, self.held), self.lax


def _all_found(documents: Sequence[str], path: str) -> Iterator[Lookup]:
    for part, values, lax in pieces(documents, path):
        for document, value in zip(part, values, strict=True):
            yield Lookup(document, path, lax, value)


def pieces(
    documents: Sequence[str], path: str
) -> Iterator[tuple[Sequence[str], list[object], bool]]:
    """Texts and what is at the path of each in pieces, so that not many objects live at a time: the
    collector would look through all of them; and whether the path is lax."""
    try:
        parsed = parse_path(path)
    except BadPath:
        # A bad path fails for each row, with its own message, where the value is asked for.
        yield documents, [DOUBTFUL] * len(documents), False
        return
    for start in range(0, len(documents), _TOGETHER):
        part = documents[start : start + _TOGETHER]
        yield part, values_at(part, parsed), parsed.lax


_TOGETHER = 256


def located(ctx: KernelContext, document: Values, path: Values) -> Iterator[Lookup | None]:
    """Yields the value at the path for each row, None where an argument is NULL."""
    if isinstance(path, pa.Scalar) and path.is_valid and isinstance(document, pa.Array):
        located_values = _all_found(document.drop_null().to_pylist(), path.as_py())
        if not document.null_count:
            return located_values
        return (
            # NULL rows have no lookup of their own: the iterator moves on for present ones only.
            next(located_values) if present else None
            for present in document.is_valid().to_pylist()
        )
    pairs = zip(range(ctx.num_rows), rows_of(document), rows_of(path), strict=False)
    return (None if d is None or p is None else Lookup(str(d), str(p)) for _, d, p in pairs)


def word_of(values: Values) -> str:
    return str(next(iter(rows_of(values)), "NULL"))


def distinct(function: Callable[[str], object], ctx: KernelContext, document: pa.Array) -> Vector:
    """`function` once per distinct document, with its errors."""
    # Documents often repeat; each distinct one is parsed once, and its error spread over its rows.
    encoded = document.dictionary_encode()
    mapped, failures = _guarded(function, [(d,) for d in encoded.dictionary.to_pylist()])
    values = pa.array(mapped, ctx.result_type.arrow).take(encoded.indices)
    if not failures:
        return Vector(values)
    rows = {i: failures[c] for i, c in enumerate(encoded.indices.to_pylist()) if c in failures}
    return Vector(values, errors_of(rows, len(values)))


def all_rows(
    function: Callable[..., object], ctx: KernelContext, *values: Iterable[object]
) -> Vector:
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


def as_text(value: Json) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return number_text(value)
    return value if isinstance(value, str) else None


def returning(literal: object, allowed: Callable[[DataType], bool], name: str) -> DataType:
    kind = parse_type(literal) if isinstance(literal, str) else STRING
    if not allowed(kind):
        raise PlanError(f"{name} cannot return {kind.plain}")
    return kind.with_nullable(True)
