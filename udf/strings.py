"""Strings. Lengths and positions count Unicode code points, from 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BOOLEAN, INT, STRING, DataType
from udf.arrays import RowError, is_ascii, is_constant, map_text, per_distinct, row_by_row, row_errors, rows_of
from udf.coercion import concat_type
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import (
    Custom,
    Positional,
    always_nullable,
    gives,
    int_,
    nullable,
    same_as_first,
    takes,
    text,
    varying_as_first,
)
from udf.vector import Vector

_STRING = pa.string()


def _cased(values: Values, ascii_kernel: Callable[..., Values], full: Callable[[str], str]) -> Values:
    return ascii_kernel(values) if is_ascii(values) else per_distinct(full, _STRING, values)


@function("LOWER", signature=takes(text, result=same_as_first))
def lower(ctx: KernelContext, value: Values) -> Values:
    """LOWER(text): the text in lower case.

    >>> LOWER('ABC')
    'abc'
    """
    return _cased(value, pc.ascii_lower, str.lower)


@function("UPPER", signature=takes(text, result=same_as_first))
def upper(ctx: KernelContext, value: Values) -> Values:
    """UPPER(text): the text in upper case; `ß` becomes `SS`.

    >>> UPPER('abc')
    'ABC'
    """
    return _cased(value, pc.ascii_upper, str.upper)


_WORD = re.compile("[A-Za-z0-9]+")


def _capitalised(value: str) -> str:
    return _WORD.sub(lambda word: word[0].capitalize(), value)


@function("INITCAP", signature=takes(text, result=same_as_first))
def initcap(ctx: KernelContext, value: Values) -> Values:
    """INITCAP(text): every word with its first letter in upper case and the others in lower case. Only the letters and
    digits of ASCII make words; all others stay as they are.

    >>> INITCAP('hello wORLD')
    'Hello World'
    """
    return per_distinct(_capitalised, _STRING, value)


@function("CHAR_LENGTH", "CHARACTER_LENGTH", signature=takes(text, result=INT))
def char_length(ctx: KernelContext, value: Values) -> Values:
    """CHAR_LENGTH(text): the number of characters.

    >>> CHAR_LENGTH('héé')
    3
    """
    return pc.utf8_length(value)


def _concat_types(types: Types) -> tuple[DataType, ...] | None:
    same_kind = len(types) == 2 and all(t.is_string for t in types)
    return tuple(types) if same_kind else None


def _concat_result(types: Types, literals: Literals) -> DataType:
    return concat_type(types[0], types[1]).with_nullable(nullable(types))


@function("||", signature=Custom(_concat_types, _concat_result, "two strings"))
def concat_operator(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a || b: both texts joined; NULL if one is NULL.

    >>> 'a' || 'b'
    'ab'
    """
    return pc.binary_join_element_wise(left, right, _EMPTY)


@function("CONCAT", signature=takes(text, result=STRING, variadic=True))
def concat(ctx: KernelContext, *values: Values) -> Values:
    """CONCAT(text, …): all texts joined; NULL if one is NULL.

    >>> CONCAT('a', 'b', 'c')
    'abc'
    """
    return pc.binary_join_element_wise(*values, _EMPTY)


@function("CONCAT_WS", signature=Positional((text, text), lambda t, _: STRING.with_nullable(nullable(t)), 1, True))
def concat_ws(ctx: KernelContext, separator: Values, *values: Values) -> Values:
    """CONCAT_WS(separator, text, …): the texts joined, those that are NULL left out; NULL if the separator is NULL.

    >>> CONCAT_WS(',', 'a', CAST(NULL AS STRING), 'b')
    'a,b'
    """
    if not values:
        return pc.if_else(pc.is_valid(separator), _EMPTY, pa.scalar(None, _STRING))
    joined = pc.binary_join_element_wise(*values, separator, null_handling="skip")
    if len(joined) == ctx.num_rows:
        return joined
    rows = zip(
        range(ctx.num_rows), rows_of(separator), *map(rows_of, values), strict=False
    )  # Arrow loses rows of NULLs
    return pa.array([None if sep is None else _joined(str(sep), parts) for _, sep, *parts in rows], _STRING)


def _joined(separator: str, parts: Sequence[object]) -> str:
    return separator.join(str(p) for p in parts if p is not None)


_EMPTY = pa.scalar("", _STRING)


def _substring_result(types: Types, literals: Literals) -> DataType:
    return varying_as_first(types, literals).with_nullable(True)


def substring_of(value: str, start: int, length: int | None = None) -> str | None:
    """SUBSTRING for one value: a `start` below 1 counts from the end, 0 is 1; NULL for a negative length."""
    if length is not None and length < 0:
        return None
    begin = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    if begin < 0:
        return ""
    return value[begin:] if length is None else value[begin : begin + length]


@function("SUBSTRING", "SUBSTR", signature=takes(text, int_, int_, optional=1, result=_substring_result))
def substring(ctx: KernelContext, value: Values, start: Values, length: Values | None = None) -> Values:
    """SUBSTRING(text FROM start [FOR length]), SUBSTRING(text, start [, length]): a part of the text; a negative start
    counts from the end; NULL for a negative length.

    >>> SUBSTRING('hello' FROM 2 FOR 3)
    'ell'
    """
    rest = (start,) if length is None else (start, length)
    if is_constant(*rest) and all(r.is_valid for r in rest) and start.as_py() >= 0:
        begin = max(start.as_py() - 1, 0)
        size = None if length is None else length.as_py()
        if size is None or size >= 0:
            return pc.utf8_slice_codeunits(value, begin, None if size is None else begin + size)
    return map_text(ctx.num_rows, substring_of, _STRING, value, *rest)


@function("LEFT", signature=takes(text, int_, result=_substring_result))
def left(ctx: KernelContext, value: Values, length: Values) -> Values:
    """LEFT(text, length): the first characters; empty for a negative length.

    >>> LEFT('hello', 2)
    'he'
    """
    return map_text(ctx.num_rows, lambda v, n: v[: max(n, 0)], _STRING, value, length)


@function("RIGHT", signature=takes(text, int_, result=_substring_result))
def right(ctx: KernelContext, value: Values, length: Values) -> Values:
    """RIGHT(text, length): the last characters; empty for a negative length.

    >>> RIGHT('hello', 2)
    'lo'
    """
    return map_text(ctx.num_rows, lambda v, n: v[-n:] if n > 0 else "", _STRING, value, length)


@function("REPLACE", signature=takes(text, text, text, result=STRING))
def replace(ctx: KernelContext, value: Values, search: Values, replacement: Values) -> Values:
    """REPLACE(text, search, replacement): every occurrence of `search` replaced; an empty `search` is found before,
    between and after all characters.

    >>> REPLACE('hello world', 'world', 'there')
    'hello there'
    """
    if is_constant(search, replacement) and search.is_valid and replacement.is_valid and search.as_py():
        return pc.replace_substring(value, search.as_py(), replacement.as_py())
    return map_text(ctx.num_rows, str.replace, _STRING, value, search, replacement)


def _position(search: str, value: str, start: int = 1) -> int:
    return value.find(search, max(start, 1) - 1) + 1 if search else 1


@function("POSITION", signature=takes(text, text, int_, optional=1, result=INT))
def position(ctx: KernelContext, search: Values, value: Values, *start: Values) -> Values:
    """POSITION(search IN text [FROM start]): where `search` first occurs in the text, 0 if it does not; 1 for an empty
    one.

    >>> POSITION('l' IN 'hello')
    3
    """
    swapped: Callable[..., int] = lambda v, s, *at: _position(s, v, *at)  # noqa: E731
    return map_text(ctx.num_rows, swapped, pa.int32(), value, search, *start)


@function("LOCATE", signature=takes(text, text, int_, optional=1, result=INT))
def locate(ctx: KernelContext, search: Values, value: Values, *start: Values) -> Values:
    """LOCATE(search, text [, start]): where `search` first occurs in the text, from `start` on; 0 if it does not; 1 for an
    empty one.

    >>> LOCATE('l', 'hello', 4)
    4
    """
    return position(ctx, search, value, *start)


@function("INSTR", signature=takes(text, text, result=INT))
def instr(ctx: KernelContext, value: Values, search: Values) -> Values:
    """INSTR(text, search): where `search` first occurs in the text, 0 if it does not.

    >>> INSTR('hello', 'l')
    3
    """
    return position(ctx, search, value)


def _end_types(types: Types) -> tuple[DataType, ...] | None:
    alike = len(types) == 2 and (all(t.is_string for t in types) or all(t.is_binary for t in types))
    return tuple(types) if alike else None


_END = Custom(_end_types, gives(BOOLEAN), "two strings or two binary values")


@function("STARTSWITH", signature=_END)
def startswith(ctx: KernelContext, value: Values, prefix: Values) -> Values:
    """STARTSWITH(text, prefix): whether the text (or the bytes) begins with the prefix.

    >>> STARTSWITH('abc', 'ab')
    TRUE
    """
    if is_constant(prefix) and prefix.is_valid:
        return pc.starts_with(value, prefix.as_py())
    return map_text(ctx.num_rows, lambda v, p: v.startswith(p), pa.bool_(), value, prefix)


@function("ENDSWITH", signature=_END)
def endswith(ctx: KernelContext, value: Values, suffix: Values) -> Values:
    """ENDSWITH(text, suffix): whether the text (or the bytes) ends with the suffix.

    >>> ENDSWITH('abc', 'bc')
    TRUE
    """
    if is_constant(suffix) and suffix.is_valid:
        return pc.ends_with(value, suffix.as_py())
    return map_text(ctx.num_rows, lambda v, e: v.endswith(e), pa.bool_(), value, suffix)


def _split_index(value: str, separator: str | int, index: int) -> str | None:
    if index < 0 or not value:
        return None
    if isinstance(separator, int):
        separator = chr(separator)
    parts = value.split(separator) if separator else _split_at_space(value)
    return parts[index] if index < len(parts) else None


def _split_at_space(value: str) -> list[str]:
    return "".join(" " if c.isspace() else c for c in value).split(" ")


def _split_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 3 or not types[0].is_string or not (types[1].is_string or types[1].is_integer):
        return None
    return types[0], types[1], int_.cast(types[2])


@function(
    "SPLIT_INDEX",
    signature=Custom(_split_types, always_nullable(STRING), "a string, a separator (string or code) and an index"),
)
def split_index(ctx: KernelContext, value: Values, separator: Values, index: Values) -> Values:
    """SPLIT_INDEX(text, separator, index): the part at `index` (from 0); NULL if there is none.

    >>> SPLIT_INDEX('a,b,c', ',', 1)
    'b'
    """
    return map_text(ctx.num_rows, _split_index, _STRING, value, separator, index)


MAX_RESULT = 1 << 24


def _bounded(length: int) -> int:
    if length > MAX_RESULT:
        raise RowError(f"a text of {length} characters is too long")
    return length


def _padding(value: str, length: int, pad: str) -> str:
    missing = _bounded(length) - len(value)
    return (pad * (missing // len(pad) + 1))[:missing]


def _lpad(value: str, length: int, pad: str) -> str | None:
    if length < 0 or not pad:
        return None
    return value[:length] if length <= len(value) else _padding(value, length, pad) + value


def _rpad(value: str, length: int, pad: str) -> str | None:
    if length < 0 or not pad:
        return None
    return value[:length] if length <= len(value) else value + _padding(value, length, pad)


def _repeat(value: str, count: int) -> str:
    return value * count if _bounded(len(value) * count) > 0 else ""


@function("LPAD", signature=takes(text, int_, text, result=STRING))
def lpad(ctx: KernelContext, value: Values, length: Values, pad: Values) -> Vector:
    """LPAD(text, length, filling): the text filled at its left to `length`, or cut to it; NULL for a negative length or an
    empty filling. Error: more than 16,777,216 characters.

    >>> LPAD('hi', 4, '?')
    '??hi'
    """
    return Vector(*row_errors(ctx.num_rows, _lpad, _STRING, value, length, pad))


@function("RPAD", signature=takes(text, int_, text, result=STRING))
def rpad(ctx: KernelContext, value: Values, length: Values, pad: Values) -> Vector:
    """RPAD(text, length, filling): the text filled at its right to `length`, or cut to it; NULL for a negative length or
    an empty filling. Error: more than 16,777,216 characters.

    >>> RPAD('hi', 4, '?')
    'hi??'
    """
    return Vector(*row_errors(ctx.num_rows, _rpad, _STRING, value, length, pad))


@function("REPEAT", signature=takes(text, int_, result=STRING))
def repeat(ctx: KernelContext, value: Values, count: Values) -> Vector:
    """REPEAT(text, count): the text `count` times; empty for a count below 1. Error: more than 16,777,216 characters.

    >>> REPEAT('ab', 3)
    'ababab'
    """
    return Vector(*row_errors(ctx.num_rows, _repeat, _STRING, value, count))


@function("REVERSE", signature=takes(text, result=always_nullable(STRING)))
def reverse(ctx: KernelContext, value: Values) -> Values:
    """REVERSE(text): the characters in reverse order.

    >>> REVERSE('abc')
    'cba'
    """
    return pc.utf8_reverse(value)


def _trim_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) in (1, 3) and all(t.is_string for t in types) else None


def _trim_result(types: Types, literals: Literals) -> DataType:
    return varying_as_first((types[-1],), ()).with_nullable(nullable(types))


_TRIMS = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}
_STRIPS = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}


def _trimmed(num_rows: int, mode: str, value: Values, characters: Values | None) -> Values:
    if characters is None:
        return _TRIMS[mode](value, characters=" ")
    if is_constant(characters) and characters.is_valid:
        return _TRIMS[mode](value, characters=characters.as_py()) if characters.as_py() else value
    strip = _STRIPS[mode]
    return row_by_row(num_rows, lambda v, c: strip(v, c) if c else v, _STRING, value, characters)


@function("TRIM", signature=Custom(_trim_types, _trim_result, "a string, or a mode, characters and a string"))
def trim(ctx: KernelContext, *args: Values) -> Values:
    """TRIM([BOTH | LEADING | TRAILING] [characters] FROM text), TRIM(text): without spaces, or any of the characters, at
    the ends.

    >>> TRIM(LEADING 'ab' FROM 'abac')
    'c'
    """
    if len(args) == 1:
        return _trimmed(ctx.num_rows, "BOTH", args[0], None)
    mode = next(iter(rows_of(args[0])), "BOTH")  # the parser writes a literal there
    return _trimmed(ctx.num_rows, str(mode), args[2], args[1])


@function("LTRIM", signature=takes(text, text, optional=1, result=varying_as_first))
def ltrim(ctx: KernelContext, value: Values, characters: Values | None = None) -> Values:
    """LTRIM(text [, characters]): without spaces, or any of the characters, at the left.

    >>> LTRIM('  a ')
    'a '
    """
    return _trimmed(ctx.num_rows, "LEADING", value, characters)


@function("RTRIM", signature=takes(text, text, optional=1, result=varying_as_first))
def rtrim(ctx: KernelContext, value: Values, characters: Values | None = None) -> Values:
    """RTRIM(text [, characters]): without spaces, or any of the characters, at the right.

    >>> RTRIM('  a ')
    '  a'
    """
    return _trimmed(ctx.num_rows, "TRAILING", value, characters)


@function("BTRIM", signature=takes(text, text, optional=1, result=STRING))
def btrim(ctx: KernelContext, value: Values, characters: Values | None = None) -> Values:
    """BTRIM(text [, characters]): without spaces, or any of the characters, at both ends.

    >>> BTRIM('xyax', 'xy')
    'a'
    """
    return _trimmed(ctx.num_rows, "BOTH", value, characters)
