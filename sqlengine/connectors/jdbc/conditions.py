"""Conditions of a plan as conditions in the SQL of a database: those that leave out no row which
fulfils ours, by the types of its columns.

A database may find more texts equal (collations that know no case, blanks at the end), but never
fewer: texts are compared for equality alone, where its columns are texts. A time that has more
digits than its column here is cut when it is read, a DECIMAL is rounded: it is asked for with half
a digit to both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Final

from parser.types import DataType, Root, unit
from planner.rewrite import conjuncts
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.connectors.jdbc.dialect import MARK, Dialect, Query
from sqlengine.connectors.jdbc.driver import Value

_OF_NULL: Final = ("IS NULL", "IS NOT NULL")
_WHOLE, _REAL, _TEXT, _DATE, _MOMENT = "whole", "real", "text", "date", "moment"
_EXACT = "exact"
_MOST_SCALE: Final = 29  # of those that all databases compare exactly
_EXACTLY: Final = Context(prec=100)
# Each word makes an expression one deeper, and SQLite takes none that is deeper than 1,000.
_IN_A_ROW: Final = 100
# What the types of columns in databases are like.
_LIKE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "integer", "bigint"), _WHOLE),
    **dict.fromkeys(("double", "double precision"), _REAL),
    **dict.fromkeys(("text", "character varying", "character", "varchar", "char"), _TEXT),
    **dict.fromkeys(("tinytext", "mediumtext", "longtext"), _TEXT),
    "date": _DATE,
    # All in the zone of the connection, which is UTC.
    **dict.fromkeys(("timestamp without time zone", "timestamp with time zone"), _MOMENT),
    **dict.fromkeys(("datetime", "timestamp"), _MOMENT),
    **dict.fromkeys(("numeric", "decimal"), _EXACT),
}
_OF_ROOT: Final[Mapping[Root, str]] = {
    Root.DOUBLE: _REAL,
    Root.DATE: _DATE,
    Root.TIMESTAMP: _MOMENT,
    Root.TIMESTAMP_LTZ: _MOMENT,
}
_BEGINNING: Final = datetime(1970, 1, 1)
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000}


def asked(where: Scalar | None, types: Mapping[str, str], dialect: Dialect) -> list[Query]:
    """Returns the conditions in a condition that the database can judge, all of which hold then.
    `types`: those of the columns in the database, where they are known."""
    parts = [] if where is None else conjuncts(where)
    found = [_condition(part, types, dialect) for part in parts]
    return [query for query in found if query is not None]


def _joined(parts: list[Query], word: str) -> Query:
    if len(parts) > _IN_A_ROW:
        starts = range(0, len(parts), _IN_A_ROW)
        return _joined([_joined(parts[s : s + _IN_A_ROW], word) for s in starts], word)
    text = word.join(p.text for p in parts)
    return Query(f"({text})", tuple(v for p in parts for v in p.values))


def _condition(part: Scalar, types: Mapping[str, str], dialect: Dialect) -> Query | None:
    if not isinstance(part, Call):
        return None
    if part.function in ("OR", "AND"):
        parts = [_condition(a, types, dialect) for a in part.args]
        known = [p for p in parts if p is not None]
        word = f" {part.function} "
        return _joined(known, word) if len(known) == len(parts) else None
    column, *constants = part.args
    if not isinstance(column, ColumnRef):
        return None
    name = dialect.quoted(column.name)
    if part.function in _OF_NULL:
        return Query(f"{name} {part.function}")
    values = list(_values(part.function, column, constants, types))
    if len(values) != len(constants):
        return None
    if column.type.root is Root.DECIMAL:
        return _rounded(name, part.function, values, column.type.scale)
    marks = [MARK] * len(values)
    if part.function == "IN":
        return Query(f"{name} IN ({', '.join(marks)})", tuple(values))
    if part.function == "BETWEEN":
        return Query(f"{name} BETWEEN {marks[0]} AND {marks[1]}", tuple(values))
    return Query(f"{name} {part.function} {marks[0]}", tuple(values))


def _rounded(name: str, function: str, values: Sequence[Value], scale: int) -> Query | None:
    """Compares a number that is rounded to so many digits when it is read."""
    half = Decimal(5).scaleb(-scale - 1)
    exact = [Decimal(str(value)) for value in values]
    low = [_EXACTLY.subtract(value, half) for value in exact]
    high = [_EXACTLY.add(value, half) for value in exact]
    between = f"{name} BETWEEN {MARK} AND {MARK}"
    match function:
        case "=" | "IN":
            pairs = zip(low, high, strict=True)
            return _joined([Query(between, pair) for pair in pairs], " OR ")
        case "BETWEEN":
            return Query(between, (low[0], high[1]))
        case ">" | ">=":
            return Query(f"{name} >= {MARK}", (low[0],))
        case "<" | "<=":
            return Query(f"{name} <= {MARK}", (high[0],))
        case _:
            return None


def _values(
    function: str, column: ColumnRef, constants: list[Scalar], types: Mapping[str, str]
) -> Iterator[Value]:
    """Yields the constants as the database knows them; fewer where it would mean another thing."""
    kind = _like(column.type)
    found = types.get(column.name)
    # SQLite has no types of columns: what is read as a whole number is one.
    if kind is None or (kind != _WHOLE if found is None else _LIKE.get(found) != kind):
        return
    if kind == _TEXT and function not in ("=", "IN"):
        return
    if kind == _MOMENT and column.type.precision < 6 and function not in (">", ">=", "<"):
        return
    for constant in constants:
        value = constant.value if isinstance(constant, Literal) else None
        made = None if value is None else _MADE[kind](value, constant.type)
        if made is not None:
            yield made


def _like(kind: DataType) -> str | None:
    if kind.is_integer:
        return _WHOLE
    if kind.is_string:
        return _TEXT
    if kind.root is Root.DECIMAL:
        return _EXACT if kind.scale <= _MOST_SCALE else None
    return _OF_ROOT.get(kind.root)


def _whole(value: object, kind: DataType) -> Value:
    return value if isinstance(value, int) else None


def _real(value: object, kind: DataType) -> Value:
    return value if isinstance(value, float) and math.isfinite(value) else None


def _exact(value: object, kind: DataType) -> Value:
    return value if isinstance(value, Decimal | int) and not isinstance(value, bool) else None


def _text(value: object, kind: DataType) -> Value:
    return value if isinstance(value, str) and "\0" not in value else None


def _date(value: object, kind: DataType) -> Value:
    days = value + date(1970, 1, 1).toordinal() if isinstance(value, int) else 0
    return date.fromordinal(days).isoformat() if 0 < days <= date.max.toordinal() else None


def _moment(value: object, kind: DataType) -> Value:
    per_second = _PER_SECOND.get(unit(kind.precision))
    if not isinstance(value, int) or per_second is None:
        return None
    try:
        return str(_BEGINNING + timedelta(microseconds=value * (1_000_000 // per_second)))
    except OverflowError:
        return None


_MADE: Final[Mapping[str, Callable[[object, DataType], Value]]] = {
    _WHOLE: _whole,
    _REAL: _real,
    _TEXT: _text,
    _DATE: _date,
    _MOMENT: _moment,
    _EXACT: _exact,
}
