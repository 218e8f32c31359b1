"""LIKE: patterns as a list of literals and wildcards, and the cheapest Arrow kernel that tests
each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BOOLEAN, DataType
from udf.arrays.arrays import RowError, column_of, errors_of, is_constant, rows_of, valid
from udf.java.pattern_text import quote_re2
from udf.registry import KernelContext, Literals, Total, Types, Values, function
from udf.signatures import Positional, nullable, text
from udf.text.bytes import MANY, hits
from udf.vector import Vector

ANY = "%"
ONE = "_"


@dataclass(frozen=True)
class LikePattern:
    """`tokens` are literals (text, False) and wildcards (`%` or `_`, True)."""

    tokens: tuple[tuple[str, bool], ...]

    @property
    def literal(self) -> str | None:
        """The text that the pattern stands for when it has no wildcard."""
        return None if any(wild for _, wild in self.tokens) else "".join(t for t, _ in self.tokens)


@lru_cache(maxsize=16384)
def parse_like(pattern: str, escape: str | None = None) -> LikePattern:
    """Reads a pattern; RowError for a bad escape. Without an escape character nothing is
    escaped."""
    escape = escape or None
    if escape is not None and len(escape) != 1:
        raise RowError(f"invalid escape character '{escape}'")
    tokens: list[tuple[str, bool]] = []
    characters = iter(pattern)
    for c in characters:
        if c == escape:
            c = next(characters, "")
            if c not in (ANY, ONE, escape):
                raise RowError(f"invalid escape sequence in '{pattern}'")
            _add_literal(tokens, c)
        elif c == ANY:
            # `%%` is `%`.
            if not tokens or tokens[-1] != (ANY, True):
                tokens.append((ANY, True))
        elif c == ONE:
            tokens.append((ONE, True))
        else:
            _add_literal(tokens, c)
    return LikePattern(tuple(tokens))


def _add_literal(tokens: list[tuple[str, bool]], character: str) -> None:
    if tokens and not tokens[-1][1]:
        tokens[-1] = (tokens[-1][0] + character, False)
    else:
        tokens.append((character, False))


def _to_re2(pattern: LikePattern) -> str:
    parts = [".*" if t == ANY else "." if wild else quote_re2(t) for t, wild in pattern.tokens]
    # \A and \z: `$` would match before a line break at the end.
    return r"(?s)\A" + "".join(parts) + r"\z"


def match_like(values: pa.Array, pattern: LikePattern) -> pa.Array:
    """Returns a mask of the values that match; NULL where they are NULL."""
    return _matcher(pattern)(values)


@lru_cache(maxsize=16384)
def _matcher(pattern: LikePattern) -> Callable[[pa.Array], pa.Array]:
    match pattern.tokens:
        case (("%", True),):
            # `%` is TRUE of every text, but NULL of NULL.
            return lambda values: pc.if_else(values.is_valid(), _TRUE, _UNKNOWN)
        case () | ((_, False),):
            literal = pa.scalar(pattern.literal, pa.string())
            return lambda values: pc.equal(values, literal)
        case ((text, False), ("%", True)):
            return _kernel("starts_with", text)
        case (("%", True), (text, False)):
            return _kernel("ends_with", text)
        case (("%", True), (text, False), ("%", True)):
            return _container(text)
    return _kernel("match_substring_regex", _to_re2(pattern))


def _kernel(name: str, text: str) -> Callable[[pa.Array], pa.Array]:
    """Arrow's kernel with options made once."""
    function, options = pc.get_function(name), pc.MatchSubstringOptions(text)
    return lambda values: function.call([values], options)


def _container(text: str) -> Callable[[pa.Array], pa.Array]:
    kernel, needle = _kernel("match_substring", text), text.encode()
    if len(needle) < 2:
        return kernel
    # The search over the whole buffer has a fixed cost: only for many rows.
    return lambda values: (
        _where(values, hits(values, needle)[0]) if len(values) >= MANY else kernel(values)
    )


def _where(values: pa.Array, rows: npt.NDArray[np.intp]) -> pa.Array:
    """TRUE in these rows, NULL where the values are."""
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return column_of(np.packbits(mask, bitorder="little"), valid(values, len(values)), pa.bool_())


_TRUE = pa.scalar(True)
_UNKNOWN = pa.scalar(None, pa.bool_())


def _like_result(types: Types, literals: Literals) -> DataType:
    if isinstance(literals[1], str) and (len(types) == 2 or isinstance(literals[2], str)):
        try:
            parse_like(literals[1], *[e for e in literals[2:] if isinstance(e, str)])
        except RowError as error:
            raise PlanError(str(error)) from None
    return BOOLEAN.with_nullable(nullable(types))


@function(
    "LIKE",
    signature=Positional((text, text, text), _like_result, 1),
    total=Total.WITH_CONSTANTS,
    strict=True,
)
def like(
    ctx: KernelContext, value: Values, pattern: Values, escape: Values | None = None
) -> Values | Vector:
    """text [NOT] LIKE pattern [ESCAPE character]: `%` stands for any characters, also line breaks,
    `_` for one.

    >>> 'hello' LIKE 'h_l%'
    TRUE
    """
    escapes = () if escape is None else (escape,)
    if is_constant(pattern, *escapes):
        if not pattern.is_valid or not all(e.is_valid for e in escapes):
            return pa.nulls(ctx.num_rows, pa.bool_())
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, ctx.num_rows)
        try:
            return match_like(value, parse_like(pattern.as_py(), *[e.as_py() for e in escapes]))
        except RowError as error:
            # A bad escape is an error of each row, not of the statement.
            return Vector(
                pa.nulls(ctx.num_rows, pa.bool_()),
                errors_of({i: str(error) for i in range(ctx.num_rows)}, ctx.num_rows),
            )
    return _like_rows(ctx.num_rows, value, pattern, *escapes)


def _like_rows(num_rows: int, value: Values, *patterns: Values) -> Vector:
    """Patterns from a column: one test per distinct pattern."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for row, key in zip(range(num_rows), zip(*map(rows_of, patterns), strict=False), strict=False):
        # A row with a NULL pattern stays NULL.
        if None not in key:
            groups.setdefault(key, []).append(row)
    values = pa.repeat(value, num_rows) if isinstance(value, pa.Scalar) else value
    result: list[bool | None] = [None] * num_rows
    failures: dict[int, str] = {}
    for key, rows in groups.items():
        try:
            matched = match_like(
                values.take(pa.array(rows)), parse_like(*map(str, key))
            ).to_pylist()
        except RowError as error:
            failures.update((row, str(error)) for row in rows)
            continue
        for row, hit in zip(rows, matched, strict=True):
            result[row] = hit
    return Vector(pa.array(result, pa.bool_()), errors_of(failures, num_rows))
