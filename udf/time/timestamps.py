"""Between texts, numbers and timestamps: TO_TIMESTAMP, TO_TIMESTAMP_LTZ, DATE_FORMAT,
UNIX_TIMESTAMP, FROM_UNIXTIME."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC

import numpy as np
import pyarrow as pa

from parser.errors import PlanError
from parser.types import BIGINT, DATE, STRING, DataType, Root, timestamp, timestamp_ltz
from udf.arrays.arrays import (
    RowError,
    is_constant,
    map_text,
    per_distinct,
    quoted,
    row_errors,
    valid,
)
from udf.casts.cast import convert
from udf.casts.parsing import days_of, parse_date, parse_timestamp
from udf.casts.texts import local
from udf.java.simple_dates import check_simple, java_zone, read_simple, seconds_at, simple_tokens
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, int_
from udf.time.fixed_times import Shape, read_column, shape_of, written
from udf.time.intervals import from_integers, integers, units_per_ms
from udf.time.patterns import BadPattern, Token, check_pattern, read, tokens_of, write
from udf.vector import Vector

_STRING = pa.string()
DEFAULT = "yyyy-MM-dd HH:mm:ss"
_MS = pa.timestamp("ms")
_MS_UTC = pa.timestamp("ms", "UTC")
# Flink's range: years 1 to 9999.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
MIN_LONG = -(2**63)


def texts(least: int, most: int) -> Callable[[Types], tuple[DataType, ...] | None]:
    return lambda types: (
        tuple(types) if least <= len(types) <= most and all(t.is_string for t in types) else None
    )


def _checked(kind: DataType) -> Callable[[Types, Literals], DataType]:
    def result(types: Types, literals: Literals) -> DataType:
        for pattern in literals[1:2]:
            check_pattern(pattern)
        return kind

    return result


def _read(value: str, pattern: str | None = None) -> int | None:
    """Milliseconds since 1970-01-01; what the pattern does not fit is read as a plain timestamp
    whose fields may be too large."""
    if pattern is None:
        plain = parse_timestamp(value)
        return None if plain is None else plain // 1_000_000
    try:
        nanos = read(value, pattern)
    except BadPattern:
        return None
    return _overflowing(value) if nanos is None else nanos // 1_000_000


_PLAIN = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?: +(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?\s*",
    re.ASCII,
)


def _overflowing(value: str) -> int | None:
    """Milliseconds of `yyyy-M-d[ H:m:s[.fraction]]`, of which days and smaller fields go on into
    the next larger one."""
    match = _PLAIN.fullmatch(value)
    # Months do not overflow here, and days only as far as 31.
    if match is None or not 1 <= int(match[2]) <= 12 or not 1 <= int(match[3]) <= 31:
        return None
    first = days_of(int(match[1]), int(match[2]), 1)
    if first is None:
        return None
    hour, minute, second = (int(match[i] or 0) for i in (4, 5, 6))
    # Linear arithmetic lets hours, minutes and seconds go on into the next day.
    seconds = (first + int(match[3]) - 1) * 86_400 + (hour * 60 + minute) * 60 + second
    return seconds * 1000 + int((match[7] or "").ljust(3, "0")[:3])


@function(
    "TO_TIMESTAMP",
    signature=Custom(texts(1, 2), lambda t, _: timestamp(3), "a string and a pattern"),
)
def to_timestamp(ctx: KernelContext, value: Values, *pattern: Values) -> Values:
    """TO_TIMESTAMP(text [, pattern]): the timestamp; NULL for an invalid text; `yyyy-MM-dd
    HH:mm:ss` with a fraction or without by default.

    >>> TO_TIMESTAMP('2020-01-02 03:04:05')
    2020-01-02T03:04:05
    """
    # Without a pattern a text is read as CAST reads it.
    if not pattern and isinstance(value, pa.Array):
        return convert(value, STRING, timestamp(3)).values
    shape = (
        constant_shape(pattern[0], tokens_of) if isinstance(value, pa.Array) and pattern else None
    )
    if shape is None:
        return map_text(ctx.num_rows, _read, pa.int64(), value, *pattern).cast(_MS)
    ms = read_column(value, shape, 1000, lambda v: per_distinct(_read, pa.int64(), v, *pattern))
    return ms.cast(_MS)


def constant_shape(pattern: Values, tokens: Callable[[str], tuple[Token, ...]]) -> Shape | None:
    """The shape of texts that a constant pattern reads, if that is a plain one."""
    if not is_constant(pattern) or not pattern.is_valid:
        return None
    try:
        shape = shape_of(tokens(pattern.as_py()))
    except BadPattern:
        return None
    return shape if shape is not None and shape.readable else None


def _read_date(value: str, pattern: str | None = None) -> int | None:
    """Days since 1970-01-01."""
    if pattern is None:
        return parse_date(value)
    try:
        ms = read_simple(value, pattern, UTC)
    except BadPattern as error:
        raise RowError(str(error)) from None
    return None if ms is None else ms // 86_400_000


def _seconds_of_day(value: str, pattern: str | None = None) -> int | None:
    """Returns the seconds since 1970 at which the day begins."""
    days = _read_date(value, pattern)
    return None if days is None else days * 86_400


def _date_result(types: Types, literals: Literals) -> DataType:
    for pattern in literals[1:2]:
        check_simple(pattern)
    return DATE


@function("TO_DATE", signature=Custom(texts(1, 2), _date_result, "a string and a pattern"))
def to_date(ctx: KernelContext, value: Values, *pattern: Values) -> Vector:
    """TO_DATE(text [, pattern]): the date; NULL for an invalid text; `yyyy-MM-dd` by default. With
    a pattern, excess days and months overflow into the next. Error: a pattern with an unknown
    letter.

    >>> TO_DATE('2020-01-02')
    2020-01-02
    """
    given = pattern[0] if pattern else pa.scalar("yyyy-MM-dd")
    shape = constant_shape(given, simple_tokens) if isinstance(value, pa.Array) else None
    if shape is not None:
        seconds = read_column(
            value, shape, 1, lambda v: per_distinct(_seconds_of_day, pa.int64(), v, *pattern)
        )
        present = valid(seconds, len(seconds))
        return Vector(
            from_integers(integers(seconds, len(seconds)) // 86_400, present, pa.date32())
        )
    days, errors = row_errors(ctx.num_rows, _read_date, pa.int32(), value, *pattern)
    return Vector(days.cast(pa.date32()), errors)


def _ltz_types(types: Types) -> tuple[DataType, ...] | None:
    if types and types[0].is_string:
        return texts(1, 3)(types)
    if not types or not types[0].is_numeric or len(types) > 2:
        return None
    return types[0], *[int_.cast(t) for t in types[1:]]


def _ltz_result(types: Types, literals: Literals) -> DataType:
    if len(types) > 1 and not types[0].is_string:
        precision = literals[1]
        if not isinstance(precision, int) or precision not in range(10):
            raise PlanError("a literal precision from 0 to 9 expected")
        return timestamp_ltz(max(3, precision))
    zone = literals[2] if len(literals) > 2 else None
    if isinstance(zone, str) and not _is_zone(zone):
        raise PlanError(f"unknown time zone '{zone}'")
    return timestamp_ltz(3)


def _is_zone(name: str) -> bool:
    return name in ("UTC", "Z") or java_zone(name) is not UTC


@function(
    "TO_TIMESTAMP_LTZ",
    signature=Custom(_ltz_types, _ltz_result, "a number and a precision, or a string"),
)
def to_timestamp_ltz(ctx: KernelContext, value: Values, *rest: Values) -> Values | Vector:
    """TO_TIMESTAMP_LTZ(number [, precision]), TO_TIMESTAMP_LTZ(text [, pattern [, zone]]): the
    instant that many seconds (precision 0), milliseconds (3, the default), … after 1970-01-01;
    or that of a text read in the zone (UTC). NULL where there is no such time. Error: without a
    pattern, a text that is no timestamp.

    >>> TO_TIMESTAMP_LTZ(1577836800, 0)
    2020-01-01T00:00:00Z
    """
    if ctx.arg_types[0].is_string:
        return _ltz_of_text(ctx, value, *rest)
    precision = next(
        (r[0].as_py() if isinstance(r, pa.Array) and len(r) else None for r in rest), 3
    )
    if rest and isinstance(rest[0], pa.Scalar):
        precision = rest[0].as_py()
    if precision is None:
        return pa.nulls(ctx.num_rows, ctx.result_type.arrow)
    return _ltz_of_number(ctx, value, int(precision))


def _ltz_of_number(ctx: KernelContext, value: Values, precision: int) -> Values:
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, ctx.num_rows)
    if pa.types.is_decimal(value.type):
        value = convert(value, ctx.arg_types[0], BIGINT).values
    elif not pa.types.is_integer(value.type):
        # FLOAT and DOUBLE: scaled to milliseconds at least before the fraction is cut off.
        value, precision = _whole(value, 10.0 ** max(3 - precision, 0)), max(precision, 3)
    digits = {"ms": 3, "us": 6, "ns": 9}[ctx.result_type.arrow.unit]
    numbers = integers(value, len(value))
    present = valid(value, len(value))
    # From the number's precision to the column's: one of the two factors is 1.
    up, down = 10 ** max(digits - precision, 0), 10 ** max(precision - digits, 0)
    first, last = FIRST_MS * 10**precision // 1000, (LAST_MS + 1) * 10**precision // 1000
    # What lies outside of Flink's years is NULL, tested before anything can overflow.
    inside = present & (numbers >= max(first, MIN_LONG)) & (numbers < min(last, 2**63 - 1))
    moved = np.where(inside, numbers, 0) * up // down
    return from_integers(moved, inside, ctx.result_type.arrow)


def _whole(value: pa.Array, times: float) -> pa.Array:
    """`times` the numbers, rounded down to BIGINT; NULL where they do not fit."""
    numbers = value.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) * times
    fits = np.abs(numbers) < 2.0**63
    whole = np.floor(np.where(fits, numbers, 0.0)).astype(np.int64)
    return pa.array(whole, mask=~(fits & valid(value, len(value))))


def _read_or_fail(value: str) -> int:
    ms = _read(value)
    if ms is None:
        raise RowError(f"cannot read {quoted([value])} as a timestamp")
    return ms


def _ltz_of_text(ctx: KernelContext, value: Values, *rest: Values) -> Values | Vector:
    if not rest:
        read_values, errors = row_errors(ctx.num_rows, _read_or_fail, pa.int64(), value)
        return Vector(read_values.cast(_MS_UTC), errors)
    ms = map_text(ctx.num_rows, _read, pa.int64(), value, *rest[:1])
    if len(rest) == 1:
        return ms.cast(_MS_UTC)
    return map_text(ctx.num_rows, _at_zone, pa.int64(), ms, rest[1]).cast(_MS_UTC)


def _at_zone(ms: int, zone: str) -> int:
    # Floor division: times before 1970 keep a remainder that is not negative.
    return seconds_at(ms // 1000, java_zone(zone)) * 1000 + ms % 1000


def _format_types(types: Types) -> tuple[DataType, ...] | None:
    if (
        len(types) != 2
        or not types[1].is_string
        or not (types[0].is_timestamp or types[0].is_string)
    ):
        return None
    return types[0], types[1]


@function(
    "DATE_FORMAT",
    signature=Custom(_format_types, _checked(STRING), "a timestamp or string and a pattern"),
)
def date_format(ctx: KernelContext, value: Values, pattern: Values) -> Values | Vector:
    """DATE_FORMAT(timestamp, pattern): the text of a time by Java's pattern; a string is read as a
    timestamp first.

    >>> DATE_FORMAT(TIMESTAMP '2020-01-02 03:04:05', 'dd.MM.yyyy HH:mm')
    '02.01.2020 03:04'
    """
    t = ctx.arg_types[0]
    if t.is_string:
        value, t = _read_text(ctx, value), timestamp(3)
    elif t.root is Root.TIMESTAMP_LTZ:
        value = local(value, ctx.zone)
    return _formatted(ctx.num_rows, value, t, pattern)


def _read_text(ctx: KernelContext, value: Values) -> Values:
    """Texts by the default pattern, in which fields may be too large and more may follow."""
    shape = (
        constant_shape(pa.scalar(DEFAULT), simple_tokens) if isinstance(value, pa.Array) else None
    )
    if shape is None:
        return map_text(ctx.num_rows, _read_leniently, pa.int64(), value).cast(_MS)
    return read_column(
        value, shape, 1000, lambda v: per_distinct(_read_leniently, pa.int64(), v)
    ).cast(_MS)


def _read_leniently(value: str) -> int | None:
    return read_simple(value, DEFAULT, UTC)


def _formatted(num_rows: int, value: Values, t: DataType, pattern: Values) -> Values | Vector:
    """The texts of wall clock times of type `t`."""
    numbers, present = integers(value, num_rows), valid(value, num_rows)
    if is_constant(pattern) and pattern.is_valid:
        seconds = numbers // (units_per_ms(t.arrow) * 1000)
        shape = _plain_shape(pattern.as_py())
        # The fast way knows years of four digits only.
        if (
            shape is not None
            and num_rows
            and seconds.min() * 1000 >= FIRST_MS
            and seconds.max() * 1000 <= LAST_MS
        ):
            return written(seconds, present, shape)
    per_unit = 1_000_000 // units_per_ms(t.arrow)
    column = pa.array(numbers, mask=~present)
    return Vector(
        *row_errors(num_rows, lambda v, p: _write(v * per_unit, p), _STRING, column, pattern)
    )


def _plain_shape(pattern: str) -> Shape | None:
    """The shape of what a pattern writes, if that is a plain one; `uuuu` is as good as `yyyy` in
    these years."""
    try:
        return shape_of(
            tuple(Token("y", 4) if t == Token("u", 4) else t for t in tokens_of(pattern))
        )
    except BadPattern:
        return None


def _write(nanos: int, pattern: str) -> str | None:
    try:
        return write(nanos, pattern)
    except BadPattern as error:
        raise RowError(str(error)) from None
