"""The lengths of results of functions that may be much longer than their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udf.bounds import ELEMENT, Growth, IntArray, Size, Values, ends_of, lengths, numbers


def _joined(rows: int, *values: Values) -> IntArray:
    found = np.zeros(rows, np.int64)
    for v in values:
        found += lengths(v, rows)
    return found


def _joined_or_null(rows: int, *values: Values) -> IntArray:
    return _none_where_null(_joined(rows, *values), *values)


def _none_where_null(found: IntArray, *values: Values) -> IntArray:
    """The lengths, 0 where one of the values is NULL."""
    for v in values:
        if isinstance(v, pa.Scalar):
            found *= int(v.is_valid)
        elif v.null_count:
            found[np.asarray(v.is_null().to_numpy(zero_copy_only=False))] = 0
    return found


def _sum(rows: int, *sizes: Size) -> int:
    return sum(s.total for s in sizes)


# The arguments put together: NULL where one is NULL.
JOINED: Final = Growth(_sum, _joined_or_null)
# Each argument is an element.
COLLECTED: Final = Growth(
    lambda rows, *sizes: _sum(rows, *sizes) + ELEMENT * len(sizes) * rows,
    lambda rows, *values: _joined(rows, *values) + ELEMENT * len(values),
)


# The same as JSON, whose escapes may make it longer.
WRITTEN: Final = replace(COLLECTED, escaped=True)


def _separated(rows: int, separator: Values, *values: Values) -> IntArray:
    return _joined(rows, *values) + lengths(separator, rows) * max(len(values) - 1, 0)


# Arguments with a separator, which is the first of them, in between.
SEPARATED: Final = Growth(
    lambda rows, separator, *sizes: _sum(rows, *sizes) + len(sizes) * separator.total, _separated
)


REPEATED: Final = Growth(
    lambda rows, value, count: value.total * count.longest,
    lambda rows, value, count: lengths(value, rows) * numbers(count, rows),
    counts=True,
)


def _padded(rows: int, value: Values, length: Values, padding: Values) -> IntArray:
    have, each = lengths(value, rows), lengths(padding, rows)
    missing = np.maximum(numbers(length, rows) - numbers(pc.utf8_length(value), rows), 0)
    whole, rest = np.divmod(missing, np.maximum(numbers(pc.utf8_length(padding), rows), 1))
    # A part of the padding: a character has four bytes at most.
    filled = have + whole * each + np.minimum(4 * rest, each)
    cut = np.minimum(have, 4 * numbers(length, rows))
    found: IntArray = np.where(missing > 0, filled, cut)
    found[each == 0] = 0
    return found


PADDED: Final = Growth(
    lambda rows, value, length, padding: value.total + 4 * length.total + padding.total,
    _padded,
    counts=True,
)


def _often(rows: int, value: Values, search: Values) -> IntArray:
    """The number of times that `search` is in the value; an empty one is around all characters."""
    if isinstance(search, pa.Scalar) and search.is_valid and search.as_py():
        return numbers(pc.count_substring(value, pattern=search.as_py()), rows)
    texts, sought = (
        (v.to_pylist() if isinstance(v, pa.Array) else [v.as_py()] * rows) for v in (value, search)
    )
    pairs = zip(texts, sought, strict=True)
    return np.array([0 if None in (t, s) else t.count(s) for t, s in pairs], np.int64)


def _replaced(rows: int, value: Values, search: Values, replacement: Values) -> IntArray:
    more = lengths(replacement, rows) - lengths(search, rows)
    return lengths(value, rows) + _often(rows, value, search) * more


def at_each_character(rows: int, value: Values, search: Values, replacement: Values) -> IntArray:
    """The bytes of a replacement at each character of the value, and behind the last."""
    have = lengths(value, rows)
    return have + (have + 1) * lengths(replacement, rows)


def _most_replaced(rows: int, value: Size, search: Size, replacement: Size) -> int:
    return value.total + (value.total + rows) * replacement.longest


REPLACED: Final = Growth(_most_replaced, _replaced, at_each_character)


def replaced_by(exact: Callable[..., IntArray]) -> Growth:
    """The growth of a function that puts its third argument at places of the first one."""
    return Growth(_most_replaced, exact, at_each_character)


def _split(rows: int, value: Values, delimiter: Values) -> IntArray:
    count = _often(rows, value, delimiter)
    return lengths(value, rows) + ELEMENT * (count + 1) - count * lengths(delimiter, rows)


# Parts of a text; an element each.
SPLIT: Final = Growth(
    lambda rows, value, *_: (ELEMENT + 1) * value.total + 2 * ELEMENT * rows,
    _split,
    lambda rows, value, *_: (ELEMENT + 1) * lengths(value, rows) + 2 * ELEMENT,
)


def _elements(rows: int, value: Values) -> IntArray:
    return numbers(pc.list_value_length(value), rows)


def _array_joined(
    rows: int, value: Values, delimiter: Values, missing: Values | None = None
) -> IntArray:
    count, nulls = _elements(rows, value), _nulls(rows, value)
    found = lengths(value, rows) - ELEMENT * count
    if missing is None:
        count -= nulls
        given: tuple[Values, ...] = (value, delimiter)
    else:
        found += nulls * lengths(missing, rows)
        given = (value, delimiter, missing)
    found += np.maximum(count - 1, 0) * lengths(delimiter, rows)
    return _none_where_null(found, *given)


def _nulls(rows: int, value: Values) -> IntArray:
    """The number of elements that are NULL."""
    arrays = pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value
    before = np.concatenate([[0], np.cumsum(np.asarray(arrays.values.is_null(), np.int64))])
    ends = ends_of(arrays)
    found: IntArray = before[ends[1:]] - before[ends[:-1]]
    return found


def _most_array_joined(rows: int, value: Size, *between: Size) -> int:
    return value.total * (1 + sum(b.longest for b in between))


ARRAY_JOINED: Final = Growth(_most_array_joined, _array_joined)
