"""REGEXP, REGEXP_EXTRACT, REGEXP_REPLACE: Java's dialect, find semantics, per distinct value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import SqlError, UnsupportedError
from parser.types import BOOLEAN, STRING, DataType
from udf.arrays.arrays import RowError, errors_of, is_constant, null_where, row_errors, rows_of
from udf.bounds import IntArray
from udf.growth import replaced_by
from udf.java.regex import translate
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import ResultRule, always_nullable, gives, integer, takes, text
from udf.text.searches import found, known, searched
from udf.vector import Vector

_STRING = pa.string()


def regexp_matches(value: str, pattern: str) -> bool:
    """REGEXP for one value; FALSE for a pattern that is empty or invalid. RowError when it takes
    too long."""
    compiled = known(pattern) if pattern else None
    return compiled is not None and found(compiled, value)


def regexp_extract(value: str, pattern: str, group: int = 0) -> str | None:
    """The first match's group; NULL if there is none."""
    compiled = known(pattern)
    if compiled is None or not 0 <= group <= compiled.groups:
        return None
    match = searched(compiled, value, lambda limit: compiled.exact.search(value, timeout=limit))
    extracted: str | None = None if match is None else match[group]
    return extracted


def regexp_replace(value: str, pattern: str, replacement: str) -> str | None:
    """Replaces all matches by a literal text; NULL for an invalid pattern."""
    compiled = known(pattern)
    if compiled is None:
        return None
    replaced: str = searched(
        compiled,
        value,
        lambda limit: compiled.exact.sub(lambda _: replacement, value, timeout=limit),
    )
    return replaced


def _replaced_bytes(rows: int, value: Values, pattern: Values, by: Values) -> IntArray:
    """The bytes of each result of REGEXP_REPLACE; 0 where there is none."""
    given = zip(range(rows), rows_of(value), rows_of(pattern), rows_of(by), strict=False)
    return np.array(
        [0 if None in row else _replaced_size(*map(str, row[1:])) for row in given], np.int64
    )


def _replaced_size(value: str, pattern: str, replacement: str) -> int:
    size, put = len(value.encode()), len(replacement.encode())
    try:
        compiled = known(pattern)
        if compiled is None:
            return 0
        return size + searched(
            compiled,
            value,
            lambda limit: sum(
                put - len(m[0].encode()) for m in compiled.exact.finditer(value, timeout=limit)
            ),
        )
    except RowError:  # the kernel says so, too
        return 0


def _distinct(
    function: Callable[..., object], result: pa.DataType, value: pa.Array, *constants: object
) -> Vector:
    """`function` once per distinct value, with its errors."""
    encoded = value.dictionary_encode()
    failures: dict[int, str] = {}
    mapped: list[object] = []
    for i, v in enumerate(encoded.dictionary.to_pylist()):
        try:
            mapped.append(function(v, *constants))
        except RowError as error:
            failures[i] = str(error)
            mapped.append(None)
    errors = None
    if failures:
        codes = encoded.indices.to_pylist()
        errors = errors_of(
            {row: failures[c] for row, c in enumerate(codes) if c in failures}, len(codes)
        )
    return Vector(pa.array(mapped, result).take(encoded.indices), errors)


def _by_rows(
    ctx: KernelContext, function: Callable[..., object], result: pa.DataType, *values: Values
) -> Vector:
    return Vector(*row_errors(ctx.num_rows, function, result, *values))


def _constants(value: Values, pattern: Values, *others: Values) -> bool:
    """True if only the text varies, and the pattern is one that can be translated."""
    if not isinstance(value, pa.Array) or not is_constant(pattern, *others):
        return False
    return (
        pattern.is_valid
        and all(o.is_valid for o in others)
        and _unsupported(pattern.as_py()) is None
    )


def _unsupported(pattern: str) -> UnsupportedError | None:
    try:
        translate(pattern)
    except UnsupportedError as error:
        return error
    except SqlError:
        return None
    return None


def _checked(result: ResultRule) -> ResultRule:
    """Refuses a literal pattern that this version cannot translate."""

    def rule(types: Types, literals: Literals) -> DataType:
        pattern = literals[1]
        error = _unsupported(pattern) if isinstance(pattern, str) else None
        if error is not None:
            raise error
        return result(types, literals)

    return rule


@function("REGEXP", signature=takes(text, text, result=_checked(gives(BOOLEAN))))
def regexp(ctx: KernelContext, value: Values, pattern: Values) -> Values | Vector:
    """REGEXP(text, pattern): TRUE if Java's regular expression matches somewhere in the text; FALSE
    for an empty or invalid one. Error: the search takes too long.

    >>> REGEXP('abc123', '[0-9]+$')
    TRUE
    """
    if not _constants(value, pattern):
        return _by_rows(ctx, regexp_matches, pa.bool_(), value, pattern)
    source = pattern.as_py()
    compiled = known(source) if source else None
    if compiled is None:
        return null_where(
            value.is_null().to_numpy(zero_copy_only=False), pa.repeat(False, len(value))
        )
    re2 = compiled.re2_for(value, places=False)
    if re2 is not None:
        return pc.match_substring_regex(value, re2)
    return _distinct(regexp_matches, pa.bool_(), value, source)


@function(
    "REGEXP_EXTRACT",
    signature=takes(text, text, integer, optional=1, result=_checked(always_nullable(STRING))),
)
def regexp_extract_kernel(
    ctx: KernelContext, value: Values, pattern: Values, *group: Values
) -> Values | Vector:
    """REGEXP_EXTRACT(text, pattern [, group]): the group (0, the default, is all) of the first
    match; NULL if there is no match, the group took no part in it or does not exist, or the pattern
    is invalid.

    >>> REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)
    'bar'
    """
    if not _constants(value, pattern, *group):
        return _by_rows(ctx, regexp_extract, _STRING, value, pattern, *group)
    number = group[0].as_py() if group else 0
    compiled = known(pattern.as_py())
    if compiled is None or not 0 <= number <= compiled.groups:
        return pa.nulls(len(value), _STRING)
    re2 = compiled.re2_for(value) if number in compiled.steady else None
    if re2 is not None:  # Arrow cannot tell an absent group from an empty one
        return pc.struct_field(
            pc.extract_regex(value, re2 if number else f"(?P<g0>{re2})"), f"g{number}"
        )
    return _distinct(regexp_extract, _STRING, value, pattern.as_py(), number)


@function(
    "REGEXP_REPLACE",
    signature=takes(text, text, text, result=_checked(gives(STRING))),
    growth=replaced_by(_replaced_bytes),
)
def regexp_replace_kernel(
    ctx: KernelContext, value: Values, pattern: Values, replacement: Values
) -> Values | Vector:
    """REGEXP_REPLACE(text, pattern, replacement): the text with all matches replaced by the literal
    replacement (no `$1`); NULL for an invalid pattern.

    >>> REGEXP_REPLACE('foobar', 'oo|ar', '')
    'fb'
    """
    if not _constants(value, pattern, replacement):
        return _by_rows(ctx, regexp_replace, _STRING, value, pattern, replacement)
    compiled = known(pattern.as_py())
    if compiled is None:
        return pa.nulls(len(value), _STRING)
    re2 = compiled.re2_for(value) if compiled.least else None
    if re2 is not None:  # the two replace empty matches beside others differently
        return pc.replace_substring_regex(value, re2, replacement.as_py().replace("\\", "\\\\"))
    return _distinct(regexp_replace, _STRING, value, pattern.as_py(), replacement.as_py())
