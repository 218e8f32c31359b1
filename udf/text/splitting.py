"""Texts taken apart: into arrays and maps."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING, DataType, array, map_of
from udf.arrays.arrays import RowError, is_constant, map_text, row_by_row, row_errors
from udf.growth import SPLIT
from udf.java.hash_maps import in_table_order, java_text_hash
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import Custom, always_nullable, int_, takes, text, text_or_null
from udf.text.bytes import is_single_byte, part_at
from udf.text.searches import known, searched
from udf.vector import Vector

_TEXTS = array(STRING)
_MAP = map_of(STRING, STRING)


def _split(value: str, delimiter: str) -> list[str]:
    if not value:
        return []
    return value.split(delimiter) if delimiter else list(value)


@function("SPLIT", signature=takes(text_or_null, text_or_null, result=_TEXTS), growth=SPLIT)
def split(ctx: KernelContext, value: Values, delimiter: Values) -> Values:
    """SPLIT(text, delimiter): the parts between the delimiters; the characters for an empty
    delimiter; no part for an empty text.

    >>> SPLIT('a,b,,c', ',')
    ['a', 'b', '', 'c']
    """
    if is_constant(delimiter) and delimiter.as_py():
        parts = pc.split_pattern(value, delimiter.as_py())
        empty = pa.scalar([], _TEXTS.arrow)
        return pc.if_else(pc.equal(value, ""), empty, parts.cast(_TEXTS.arrow))
    return row_by_row(ctx.num_rows, _split, _TEXTS.arrow, value, delimiter)


# Characters that mean something in a regular expression.
_MEANT = frozenset("\\^$.|?*+()[]{}")


def _split_plain(value: str, delimiter: str, most: int) -> list[str]:
    parts = value.split(delimiter, most - 1 if most else -1)
    if len(parts) > 1:
        while not most and parts and not parts[-1]:
            parts.pop()
    return parts


def _java_split(value: str, delimiter: str, most: int = 0) -> list[str]:
    """Splits as Java's `String.split` does: by a regular expression, without empty parts at the end
    unless `most` is given, and without an empty part before an empty match at the beginning."""
    if len(delimiter) == 1 and delimiter not in _MEANT:
        return _split_plain(value, delimiter, most)
    compiled = known(delimiter)
    if compiled is None:
        raise RowError(f"'{delimiter}' is not a regular expression")
    parts: list[str] = []
    start = 0
    for matches in searched(
        compiled, value, lambda limit: list(compiled.exact.finditer(value, timeout=limit))
    ):
        if matches.end() == 0 or (most and len(parts) == most - 1):
            continue
        if matches.start() == len(value) and matches.end() == matches.start() and not most:
            continue
        parts.append(value[start : matches.start()])
        start = matches.end()
    if not parts:
        return [value]
    parts.append(value[start:])
    while not most and parts and not parts[-1]:
        parts.pop()
    return parts


def _to_map(value: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
    if not value:
        return []
    entries: dict[str, str | None] = {}
    pairs = _java_split(value, between)
    for pair in pairs:
        key, *rest = _java_split(pair, inside, 2)
        entries[key] = rest[0] if rest else None
    # Flink makes the table for so many pairs: it is not the usual one.
    slots = len(pairs) + 1 if len(pairs) < 3 else -(-len(pairs) * 4 // 3)
    return in_table_order(list(entries.items()), java_text_hash, slots)


def _map_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple([text.cast(t) for t in types]) if len(types) in (1, 3) else None


@function(
    "STR_TO_MAP",
    signature=Custom(_map_types, always_nullable(_MAP), "a string, alone or with two delimiters"),
)
def str_to_map(ctx: KernelContext, value: Values, *delimiters: Values) -> Vector:
    """STR_TO_MAP(text [, between pairs, inside a pair]): the pairs as a map; the delimiters, ','
    and '=' by default, are regular expressions. A pair without the second delimiter has a NULL
    value; of equal keys the last one counts. Error: a delimiter that is no regular expression.

    >>> STR_TO_MAP('a=1,b=2')
    {'a': '1', 'b': '2'}
    """
    return Vector(*row_errors(ctx.num_rows, _to_map, _MAP.arrow, value, *delimiters))


def _split_index(value: str, separator: str | int, index: int) -> str | None:
    if index < 0 or not value:
        return None
    if isinstance(separator, int):
        if not 0 <= separator <= _LAST_CODE:
            return None
        separator = chr(separator)
    parts = value.split(separator) if separator else _split_at_space(value)
    return parts[index] if index < len(parts) else None


_LAST_CODE = 255


def _single_byte(separator: str | int | None) -> int | None:
    """The byte that a separator is, if it is one of ASCII."""
    if isinstance(separator, int):
        return separator if 0 < separator < 128 else None
    return ord(separator) if is_single_byte(separator) and separator is not None else None


def _split_at_space(value: str) -> list[str]:
    return "".join(" " if c.isspace() else c for c in value).split(" ")


def _split_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 3 or not types[0].is_string or not (types[1].is_string or types[1].is_integer):
        return None
    return types[0], types[1], int_.cast(types[2])


@function(
    "SPLIT_INDEX",
    signature=Custom(
        _split_types, always_nullable(STRING), "a string, a separator (string or code) and an index"
    ),
)
def split_index(ctx: KernelContext, value: Values, separator: Values, index: Values) -> Values:
    """SPLIT_INDEX(text, separator, index): the part at `index` (from 0); NULL if there is none.

    >>> SPLIT_INDEX('a,b,c', ',', 1)
    'b'
    """
    if (
        is_constant(separator, index)
        and index.is_valid
        and isinstance(value, pa.Array)
        and len(value)
    ):
        at, byte = index.as_py(), _single_byte(separator.as_py())
        if byte is not None and at >= 0:
            fast = part_at(value, byte, at)
            return (
                fast if at else pc.if_else(pc.equal(value, ""), pa.scalar(None, pa.string()), fast)
            )
    return map_text(ctx.num_rows, _split_index, pa.string(), value, separator, index)
