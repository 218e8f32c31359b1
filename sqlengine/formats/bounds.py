"""The parts of a file that may hold rows for which a condition is TRUE, as far as the least and the
greatest value of each column in each part tell.

Comparisons with constants, BETWEEN, IN and IS NULL of a column are decided, and AND and OR of them;
for any other condition every part may. The engine's own functions compare, so that NaN and decimals
mean the same here as where rows are filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import BOOLEAN, Column, Root, Schema
from planner.scalar import COMPARISONS, MIRRORED, Call, ColumnRef, Literal, Scalar
from sqlengine.batch import Batch
from sqlengine.expressions import compile_expression

Mask = npt.NDArray[np.bool_]

_FLOATS: Final = (Root.FLOAT, Root.DOUBLE)
# The types whose order in files is that of the engine. CHAR compares without blanks at its end.
_ORDERED: Final = frozenset(
    (
        *(Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DECIMAL, *_FLOATS),
        *(Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.VARCHAR),
    )
)
# A longer list of IN is not looked at.
_MOST_VALUES: Final = 100


@dataclass(frozen=True)
class Bounds:
    """The bounds of one column in each part: no value is below `least` or above `greatest`, which
    are NULL where they are not known. `nulls`: the number of NULLs, -1 where it is not known, of so
    many `rows`. NaN is within any bounds."""

    least: pa.Array
    greatest: pa.Array
    nulls: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


# The bounds of a column by its name; None where nothing is known.
BoundsOf = Callable[[str], Bounds | None]


def may_hold(where: Scalar, parts: int, bounds_of: BoundsOf) -> Mask:
    """Returns False for each of so many parts that certainly has no row for which the condition is
    TRUE."""
    if isinstance(where, Call) and where.function in ("AND", "OR"):
        masks = [may_hold(a, parts, bounds_of) for a in where.args]
        return reduce(np.logical_and if where.function == "AND" else np.logical_or, masks)
    leaf = decidable(where)
    bounds = None if leaf is None else bounds_of(_column(leaf).name)
    return np.ones(parts, np.bool_) if leaf is None or bounds is None else _leaf(leaf, bounds)


def decidable(where: Scalar) -> Call | None:
    """Returns the condition with its column first where bounds of that may decide it, else None."""
    if not isinstance(where, Call) or not where.args:
        return None
    first, *others = where.args
    if where.function in COMPARISONS and isinstance(first, Literal):
        (second,) = others
        where = Call(MIRRORED[where.function], (second, first), where.type)
        first, others = second, [first]
    if not isinstance(first, ColumnRef) or not all(isinstance(o, Literal) for o in others):
        return None
    if where.function in ("IS NULL", "IS NOT NULL"):
        return where
    known = where.function in (*COMPARISONS, "BETWEEN", "IN") and len(others) <= _MOST_VALUES
    return where if known and first.type.root in _ORDERED else None


def _column(leaf: Call) -> ColumnRef:
    column = leaf.args[0]
    assert isinstance(column, ColumnRef)
    return column


def _leaf(leaf: Call, bounds: Bounds) -> Mask:
    if leaf.function == "IS NULL":
        return np.not_equal(bounds.nulls, 0)
    filled: Mask = np.not_equal(bounds.nulls, bounds.rows)
    if leaf.function == "IS NOT NULL":
        return filled
    column = _column(leaf)
    if column.type.root in _FLOATS and _true_at(leaf, pa.array([np.nan], column.type.arrow))[0]:
        return filled
    known = np.array([a.is_valid and b.is_valid for a, b in _pairs(bounds)], np.bool_)
    return np.logical_and(filled, ~known | _within(leaf, bounds))


def _pairs(bounds: Bounds) -> Iterator[tuple[pa.Scalar, pa.Scalar]]:
    return zip(bounds.least, bounds.greatest, strict=True)


def _within(leaf: Call, bounds: Bounds) -> Mask:
    """Returns True for the parts in whose bounds there may be a value that fulfils the leaf."""
    column, *values = leaf.args

    def at_least(value: Scalar) -> Mask:
        return _true_at(Call(">=", (column, value), _TRUTH), bounds.greatest)

    def at_most(value: Scalar) -> Mask:
        return _true_at(Call("<=", (column, value), _TRUTH), bounds.least)

    match leaf.function:
        case "<" | "<=":
            return _true_at(leaf, bounds.least)
        case ">" | ">=":
            return _true_at(leaf, bounds.greatest)
        case "BETWEEN":
            return at_least(values[0]) & at_most(values[1])
        case "<>" if column.type.is_string:  # bounds of texts may be cut off
            return np.ones(len(bounds.least), np.bool_)
        case "<>":
            return _true_at(leaf, bounds.least) | _true_at(leaf, bounds.greatest)
    return reduce(np.logical_or, [at_least(v) & at_most(v) for v in values])


_TRUTH: Final = BOOLEAN.with_nullable(True)


def _true_at(leaf: Call, values: pa.Array) -> Mask:
    """Returns True where the leaf is TRUE, or fails, for these values of its column."""
    column = _column(leaf)
    nullable = column.type.with_nullable(True)
    read = Call(leaf.function, (ColumnRef(column.name, nullable), *leaf.args[1:]), _TRUTH)
    rows = Batch(Schema((Column(column.name, nullable),)), (values,), len(values))
    result = compile_expression(read)(rows)
    mask = np.asarray(result.array(len(values)).fill_null(False).to_numpy(zero_copy_only=False))
    return mask.astype(bool) if result.errors is None else mask.astype(bool) | result.errors.mask
