"""Literals: Flink's type for each, and its value in the unit of the Arrow type."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.grammar.datatypes import type_of
from parser.grammar.literals import UNITS, interval_value
from parser.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGERS,
    INTERVAL_DAY_TIME,
    INTERVAL_YEAR_MONTH,
    NULL,
    DataType,
    Root,
    decimal,
    unit,
)
from planner.binder import pool
from planner.scalar import Literal

_INT = INT.with_nullable(False)
_BIGINT = BIGINT.with_nullable(False)
_DOUBLE = DOUBLE.with_nullable(False)
_BOOLEAN = BOOLEAN.with_nullable(False)
_INTERVALS = {t.root: t.with_nullable(False) for t in (INTERVAL_DAY_TIME, INTERVAL_YEAR_MONTH)}
_POINTS = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_EPOCH = date(1970, 1, 1).toordinal()
_NANOSECONDS_PER = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def text(value: str) -> Literal:
    """'abc' is CHAR(3) NOT NULL; the length counts units of UTF-16, as Java does."""
    length = len(value) if value.isascii() else len(value.encode("utf-16-le", "surrogatepass")) // 2
    return pool.literal(value, pool.text_type(length))


def number(node: exp.Literal) -> Literal:
    """1 is INT, 3000000000 BIGINT, 1.5 DECIMAL(2, 1), 1e3 DOUBLE, all NOT NULL."""
    written = node.name
    if "e" in written or "E" in written:
        value = float(written)
        if value in (float("inf"), float("-inf")):
            raise PlanError(f"number {written} does not fit a DOUBLE", position=position_of(node))
        return pool.literal(value, _DOUBLE)
    if "." in written:
        return _decimal(written, node)
    whole = int(written)
    if whole >= 2**63:
        raise PlanError(
            f"number {written} does not fit a BIGINT",
            hint=f"write CAST('{written}' AS DECIMAL(38, 0))",
            position=position_of(node),
        )
    return pool.literal(whole, _INT if whole < 2**31 else _BIGINT)


def _decimal(written: str, node: exp.Literal) -> Literal:
    whole, _, fraction = written.partition(".")
    precision = max(1, len(whole) + len(fraction))
    # 0.5 is DECIMAL(2, 1), but with 38 digits the zero is none.
    if precision == 39 and whole == "0":
        precision = 38
    if int(whole + fraction) >= 2**63 and fraction:
        hint = f"write CAST('{written}' AS DECIMAL({min(precision, 38)}, {len(fraction)}))"
        raise PlanError(
            f"number {written} has too many digits for a literal",
            hint=hint,
            position=position_of(node),
        )
    if precision > 38:
        raise PlanError(f"number {written} has more than 38 digits", position=position_of(node))
    if not fraction:
        return pool.literal(int(whole), _INT if int(whole) < 2**31 else _BIGINT)
    return pool.literal(Decimal(written), decimal(precision, len(fraction)).with_nullable(False))


def binary(node: exp.Expression) -> Literal:
    value = bytes.fromhex(node.name)
    return pool.literal(value, DataType(Root.BINARY, nullable=False, length=len(value)))


def boolean(value: bool) -> Literal:
    return pool.literal(value, _BOOLEAN)


def null(kind: DataType = NULL) -> Literal:
    return pool.literal(None, kind.plain)


def retyped(value: Literal, kind: DataType) -> Literal | None:
    """The literal as a literal of type `kind`, if that is as good as a cast at run time; else
    None."""
    pair, source = value.value, value.type
    if pair is None:
        return null(kind)
    if isinstance(pair, str):
        return (
            pool.literal(pair, kind)
            if kind.root is Root.VARCHAR and kind.length >= source.length
            else None
        )
    if isinstance(pair, bool | bytes):
        return None
    if kind.root is Root.DOUBLE and source.is_numeric:
        return pool.literal(float(pair), kind)
    if (
        source.is_integer
        and kind.is_integer
        and INTEGERS.index(source.root) <= INTEGERS.index(kind.root)
    ):
        return pool.literal(pair, kind)
    if source.root is kind.root is Root.TIMESTAMP and source.precision <= kind.precision:
        steps = _NANOSECONDS_PER[unit(source.precision)] // _NANOSECONDS_PER[unit(kind.precision)]
        return pool.literal(int(pair) * steps, kind)
    return None


def interval(node: exp.Expression) -> Literal:
    assert isinstance(node, exp.Interval)
    if "value" not in node.meta:
        raise UnsupportedError(
            "INTERVAL of an expression is not supported",
            hint="multiply an interval of one unit: n * INTERVAL '1' SECOND",
            position=position_of(node),
        )
    root, value = interval_value(node)
    return pool.literal(value, _INTERVALS[root])


def unit_of(name: str, whole: bool = True) -> Literal:
    """The interval of one unit, such as a DAY. An integer that is no literal is cast to so many
    months or milliseconds (not `whole`), whatever the unit says: Flink's way."""
    months, ms = UNITS[name]
    if not whole:
        months, ms = min(months, 1), min(ms, 1)
    return pool.literal(
        months or ms, _INTERVALS[Root.INTERVAL_YEAR_MONTH if months else Root.INTERVAL_DAY_TIME]
    )


def point(node: exp.Cast) -> Literal:
    """DATE, TIME and TIMESTAMP literals from the canonical text that the parser gives; one with the
    session's zone is read in UTC, as in Flink."""
    kind = type_of(node.args["to"])
    if kind.root not in _POINTS:
        hint = "write CAST('…' AS TIMESTAMP_LTZ(3)), or TIMESTAMP '…'"
        raise UnsupportedError(
            f"a literal of type {kind.plain} is not supported",
            hint=hint,
            position=position_of(node),
        )
    written = node.this.name
    if kind.root is Root.DATE:
        return pool.literal(_days(written), kind)
    day, _, clock = written.rpartition(" ")
    nanoseconds = _nanoseconds(clock) + (_days(day) * 86_400_000_000_000 if day else 0)
    step = _NANOSECONDS_PER[unit(kind.precision)]
    if not -(2**63) <= nanoseconds // step < 2**63:
        hint = "leave out the digits that count nanoseconds"
        raise PlanError(
            f"{kind.plain} reaches from 1677 to 2262", hint=hint, position=position_of(node)
        )
    return pool.literal(nanoseconds // step, kind)


def _days(written: str) -> int:
    return date.fromisoformat(written).toordinal() - _EPOCH


def _nanoseconds(clock: str) -> int:
    time, _, fraction = clock.partition(".")
    hour, minute, second = map(int, time.split(":"))
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(fraction.ljust(9, "0") or 0)
