"""Equal small parts of plans as one object, over all statements: rules about the same fields repeat
the same columns, literals and comparisons thousands of times."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from parser.types import INT, DataType, char
from planner.analysis.totality import is_never_refused
from planner.scalar import Call, ColumnRef, Literal, Scalar
from udf.vector import LiteralValue

K = TypeVar("K")
V = TypeVar("V")

_LIMIT = 200_000

# The values hold what their keys identify, so that no identity is used again while its entry lives.
_calls: dict[tuple[str, tuple[int, ...]], tuple[tuple[Scalar, ...], Call]] = {}
_columns: dict[tuple[str, DataType], ColumnRef] = {}
_literals: dict[tuple[type, LiteralValue, DataType], Literal] = {}

INT_NOT_NULL = INT.with_nullable(False)
text_type = lru_cache(maxsize=4096)(lambda length: char(length).with_nullable(False))


def column(name: str, kind: DataType) -> ColumnRef:
    key = (name, kind)
    pooled = _columns.get(key)
    if pooled is None or pooled.type.time is not kind.time:
        pooled = _put(_columns, key, ColumnRef(name, kind))
    return pooled


def literal(value: LiteralValue, kind: DataType) -> Literal:
    key = (type(value), value, kind)
    pooled = _literals.get(key)
    # 0.0 and -0.0, 1.0 and 1.00 are equal keys.
    if pooled is None or repr(pooled.value) != repr(value):
        pooled = _put(_literals, key, Literal(value, kind))
    return pooled


def is_pooled(function: str) -> bool:
    """Calls that cannot be refused later or fail at run time need no position, and so can be one
    object."""
    return is_never_refused(function)


def known_call(function: str, args: tuple[Scalar, ...]) -> Call | None:
    """The call of `function` with exactly these objects as arguments, before implicit casts, if
    there was one."""
    pooled = _calls.get((function, tuple(map(id, args))))
    return None if pooled is None else pooled[1]


def remember(function: str, args: tuple[Scalar, ...], bound: Call) -> Call:
    _put(_calls, (function, tuple(map(id, args))), (args, bound))
    return bound


def _put(table: dict[K, V], key: K, value: V) -> V:
    if len(table) >= _LIMIT:
        table.clear()
    table[key] = value
    return value
