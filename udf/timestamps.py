"""Between texts, numbers and timestamps: TO_TIMESTAMP, TO_TIMESTAMP_LTZ, DATE_FORMAT, UNIX_TIMESTAMP, FROM_UNIXTIME."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BIGINT, DATE, INT, STRING, DataType, Root, timestamp, timestamp_ltz
from udf.arrays import RowError, is_constant, map_text, per_distinct, quoted, row_errors, valid, wrap
from udf.cast import convert
from udf.datetime_patterns import BadPattern, check_pattern, read, strftime_of, write
from udf.intervals import from_integers, integers, units_per_ms
from udf.parsing import days_of, parse_date, parse_timestamp
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, always_nullable, bigint, nullable, takes, text
from udf.simple_dates import check_simple, java_zone, read_simple, seconds_at, write_simple
from udf.texts import local
from udf.vector import Vector

_STRING = pa.string()
_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_MS = pa.timestamp("ms")
_MS_UTC = pa.timestamp("ms", "UTC")
# Flink's range: years 1 to 9999.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_MIN_LONG = -(2**63)


def _texts(least: int, most: int) -> Callable[[Types], tuple[DataType, ...] | None]:
    return lambda types: tuple(types) if least <= len(types) <= most and all(t.is_string for t in types) else None


def _checked(kind: DataType) -> Callable[[Types, Literals], DataType]:
    def result(types: Types, literals: Literals) -> DataType:
        for pattern in literals[1:2]:
            check_pattern(pattern)
        return kind

    return result


def _read(value: str, pattern: str | None = None) -> int | None:
    """Milliseconds since 1970-01-01; what the pattern does not fit is read as a plain timestamp whose fields may be too
    large."""
    if pattern is None:
        plain = parse_timestamp(value)
        return None if plain is None else plain // 1_000_000
    try:
        nanos = read(value, pattern)
    except BadPattern:
        return None
    return _overflowing(value) if nanos is None else nanos // 1_000_000


_PLAIN = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?: +(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?\s*", re.ASCII)


def _overflowing(value: str) -> int | None:
    """Milliseconds of `yyyy-M-d[ H:m:s[.fraction]]`, of which days and smaller fields go on into the next larger one."""
    found = _PLAIN.fullmatch(value)
    if found is None or not 1 <= int(found[2]) <= 12 or not 1 <= int(found[3]) <= 31:
        return None
    first = days_of(int(found[1]), int(found[2]), 1)
    if first is None:
        return None
    hour, minute, second = (int(found[i] or 0) for i in (4, 5, 6))
    seconds = (first + int(found[3]) - 1) * 86_400 + (hour * 60 + minute) * 60 + second
    return seconds * 1000 + int((found[7] or "").ljust(3, "0")[:3])


@function("TO_TIMESTAMP", signature=Custom(_texts(1, 2), lambda t, _: timestamp(3), "a string and a pattern"))
def to_timestamp(ctx: KernelContext, value: Values, *pattern: Values) -> Values:
    """TO_TIMESTAMP(text [, pattern]): the timestamp, NULL where the text is none; `yyyy-MM-dd HH:mm:ss` with a fraction or
    without by default.

    >>> TO_TIMESTAMP('2020-01-02 03:04:05')
    2020-01-02T03:04:05
    """
    if not pattern and isinstance(value, pa.Array):
        return convert(value, STRING, timestamp(3)).values
    return map_text(ctx.num_rows, _read, pa.int64(), value, *pattern).cast(_MS)


def _read_date(value: str, pattern: str | None = None) -> int | None:
    """Days since 1970-01-01."""
    if pattern is None:
        return parse_date(value)
    try:
        ms = read_simple(value, pattern, UTC)
    except BadPattern as error:
        raise RowError(str(error)) from None
    return None if ms is None else ms // 86_400_000


def _date_result(types: Types, literals: Literals) -> DataType:
    for pattern in literals[1:2]:
        check_simple(pattern)
    return DATE


@function("TO_DATE", signature=Custom(_texts(1, 2), _date_result, "a string and a pattern"))
def to_date(ctx: KernelContext, value: Values, *pattern: Values) -> Vector:
    """TO_DATE(text [, pattern]): the date, NULL where the text is none; `yyyy-MM-dd` by default. By a pattern days and months
    that are too large go on into the next. Error: a pattern with an unknown letter.

    >>> TO_DATE('2020-01-02')
    2020-01-02
    """
    days, errors = row_errors(ctx.num_rows, _read_date, pa.int32(), value, *pattern)
    return Vector(days.cast(pa.date32()), errors)


def _ltz_types(types: Types) -> tuple[DataType, ...] | None:
    if types and types[0].is_string:
        return _texts(1, 3)(types)
    if not types or not types[0].is_numeric or len(types) > 2:
        return None
    return types[0], *[INT.with_nullable(t.nullable) for t in types[1:] if t.is_integer]


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


@function("TO_TIMESTAMP_LTZ", signature=Custom(_ltz_types, _ltz_result, "a number and a precision, or a string"))
def to_timestamp_ltz(ctx: KernelContext, value: Values, *rest: Values) -> Values | Vector:
    """TO_TIMESTAMP_LTZ(number [, precision]), TO_TIMESTAMP_LTZ(text [, pattern [, zone]]): so many seconds (0),
    milliseconds (3, the default), … since 1970-01-01; or a text read in the zone (UTC). NULL where there is no such
    time. Error: without a pattern, a text that is no timestamp.

    >>> TO_TIMESTAMP_LTZ(1577836800, 0)
    2020-01-01T00:00:00Z
    """
    if ctx.arg_types[0].is_string:
        return _ltz_of_text(ctx, value, *rest)
    precision = next((r[0].as_py() if isinstance(r, pa.Array) and len(r) else None for r in rest), 3)
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
        value = _whole(value)
    digits = {"ms": 3, "us": 6, "ns": 9}[ctx.result_type.arrow.unit]
    numbers = integers(value, len(value))
    present = valid(value, len(value))
    up, down = 10 ** max(digits - precision, 0), 10 ** max(precision - digits, 0)
    first, last = _FIRST_MS * 10**precision // 1000, (_LAST_MS + 1) * 10**precision // 1000
    inside = present & (numbers >= max(first, _MIN_LONG)) & (numbers < min(last, 2**63 - 1))
    moved = np.where(inside, numbers, 0) * up // down
    return from_integers(moved, inside, ctx.result_type.arrow)


def _whole(value: pa.Array) -> pa.Array:
    """Numbers rounded down to BIGINT, NULL where they do not fit."""
    numbers = value.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
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
    return seconds_at(ms // 1000, java_zone(zone)) * 1000 + ms % 1000


def _format_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 2 or not types[1].is_string or not (types[0].is_timestamp or types[0].is_string):
        return None
    return types[0], types[1]


@function("DATE_FORMAT", signature=Custom(_format_types, _checked(STRING), "a timestamp or string and a pattern"))
def date_format(ctx: KernelContext, value: Values, pattern: Values) -> Values | Vector:
    """DATE_FORMAT(timestamp, pattern): the text by Java's pattern; a string is read as a timestamp first.

    >>> DATE_FORMAT(TIMESTAMP '2020-01-02 03:04:05', 'dd.MM.yyyy HH:mm')
    '02.01.2020 03:04'
    """
    t = ctx.arg_types[0]
    if t.is_string:
        value, t = to_timestamp(ctx, value, pa.scalar(_DEFAULT)), timestamp(3)
    elif t.root is Root.TIMESTAMP_LTZ:
        value = local(value, ctx.zone)
    return _formatted(ctx.num_rows, value, t, pattern)


def _formatted(num_rows: int, value: Values, t: DataType, pattern: Values) -> Values | Vector:
    """The texts of wall clock times of type `t`."""
    numbers, present = integers(value, num_rows), valid(value, num_rows)
    if is_constant(pattern) and pattern.is_valid:
        seconds = numbers // (units_per_ms(t.arrow) * 1000)
        plain = _strftime(pattern.as_py())
        if plain is not None and num_rows and seconds.min() * 1000 >= _FIRST_MS and seconds.max() * 1000 <= _LAST_MS:
            return pc.strftime(from_integers(seconds, present, pa.timestamp("s")), plain)
    per_unit = 1_000_000 // units_per_ms(t.arrow)
    column = pa.array(numbers, mask=~present)
    return Vector(*row_errors(num_rows, lambda v, p: _write(v * per_unit, p), _STRING, column, pattern))


def _strftime(pattern: str) -> str | None:
    try:
        return strftime_of(pattern)
    except BadPattern:
        return None


def _write(nanos: int, pattern: str) -> str | None:
    try:
        return write(nanos, pattern)
    except BadPattern as error:
        raise RowError(str(error)) from None


def _simple(kind: DataType) -> Callable[[Types, Literals], DataType]:
    def result(types: Types, literals: Literals) -> DataType:
        for pattern in literals[1:2]:
            check_simple(pattern)
        return kind

    return result


def _unix_result(types: Types, literals: Literals) -> DataType:
    _simple(BIGINT)(types, literals)
    return BIGINT.with_nullable(nullable(types))


@function("UNIX_TIMESTAMP", signature=Custom(_texts(0, 2), _unix_result, "a string and a pattern"), deterministic=False)
def unix_timestamp(ctx: KernelContext, value: Values | None = None, pattern: Values | None = None) -> Values | Vector:
    """UNIX_TIMESTAMP(): seconds since 1970-01-01 of the epoch's processing time; UNIX_TIMESTAMP(text [, pattern]): those
    of a text, which is read in the session's zone unless it names one (pattern letters z, Z, X); the smallest BIGINT for a
    text that does not fit. Error: a pattern with an unknown letter.

    >>> UNIX_TIMESTAMP('1970-01-01 00:01:00')
    60
    """
    if value is None:
        return pa.scalar(ctx.proctime_ms // 1000, pa.int64())
    given = pa.scalar(_DEFAULT) if pattern is None else pattern
    zone = java_zone(ctx.zone)
    if is_constant(given) and isinstance(value, pa.Array) and given.is_valid and _is_simple(given.as_py()):
        return per_distinct(lambda v: _seconds(v, given.as_py(), zone), pa.int64(), value)
    return Vector(*row_errors(ctx.num_rows, lambda v, p: _seconds(v, p, zone), pa.int64(), value, given))


def _is_simple(pattern: str) -> bool:
    try:
        check_simple(pattern)
    except PlanError:
        return False
    return True


def _seconds(value: str, pattern: str, zone: tzinfo) -> int:
    try:
        ms = read_simple(value, pattern, zone)
    except BadPattern as error:
        raise RowError(str(error)) from None
    return _MIN_LONG if ms is None else ms // 1000


def _from_unix_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (1, 2) or not types[0].is_integer:
        return None
    return bigint.cast(types[0]), *[text.cast(t) for t in types[1:]]


@function("FROM_UNIXTIME", signature=Custom(_from_unix_types, _simple(STRING), "a number of seconds and a pattern"))
def from_unixtime(ctx: KernelContext, value: Values, *pattern: Values) -> Values | Vector:
    """FROM_UNIXTIME(seconds [, pattern]): the text of the time in the session's zone, `yyyy-MM-dd HH:mm:ss` by default.
    Error: a pattern with an unknown letter.

    >>> FROM_UNIXTIME(44)
    '1970-01-01 00:00:44'
    """
    given = pattern[0] if pattern else pa.scalar(_DEFAULT)
    fast = _written_fast(ctx, value, given)
    if fast is not None:
        return fast
    zone = java_zone(ctx.zone)
    return Vector(*row_errors(ctx.num_rows, lambda v, p: _write_simple(v, p, zone), _STRING, value, given))


def _written_fast(ctx: KernelContext, value: Values, pattern: Values) -> Values | None:
    """By Arrow, for plain patterns and the years 1 to 9999."""
    if not is_constant(pattern) or not pattern.is_valid or not ctx.num_rows:
        return None
    plain = _strftime(pattern.as_py())
    numbers, present = integers(value, ctx.num_rows), valid(value, ctx.num_rows)
    if plain is None or numbers.min() < _FIRST_MS // 1000 + 86_400 or numbers.max() > _LAST_MS // 1000 - 86_400:
        return None
    return pc.strftime(local(from_integers(numbers, present, pa.timestamp("s", "UTC")), ctx.zone), plain)


def _write_simple(seconds: int, pattern: str, zone: tzinfo) -> str:
    try:
        return write_simple(wrap(seconds * 1000, 64), pattern, zone)
    except BadPattern as error:
        raise RowError(str(error)) from None


def _convert_zone(value: str, source: str, target: str) -> str | None:
    ms = read_simple(value, _DEFAULT, java_zone(source))
    return None if ms is None else write_simple(ms, _DEFAULT, java_zone(target))


@function("CONVERT_TZ", signature=takes(text, text, text, result=always_nullable(STRING)))
def convert_tz(ctx: KernelContext, value: Values, source: Values, target: Values) -> Values:
    """CONVERT_TZ(text, zone, zone): a time `yyyy-MM-dd HH:mm:ss` of the first zone as the clock of the second one shows it;
    NULL for another text. Zones are names ('Europe/Berlin'), abbreviations ('PST') or offsets ('GMT-08:00'); any other is
    UTC.

    >>> CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')
    '1969-12-31 16:00:00'
    """
    return map_text(ctx.num_rows, _convert_zone, _STRING, value, source, target)
