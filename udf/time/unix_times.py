"""Seconds since 1970 and texts, by the older patterns of Java: UNIX_TIMESTAMP, FROM_UNIXTIME,
CONVERT_TZ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa

from parser.errors import PlanError
from parser.types import BIGINT, STRING, DataType
from udf.arrays.arrays import RowError, is_constant, map_text, per_distinct, row_errors, valid, wrap
from udf.casts.texts import local
from udf.java.simple_dates import check_simple, java_zone, read_simple, simple_tokens, write_simple
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, always_nullable, bigint, nullable, takes, text
from udf.time.fixed_times import Shape, read, read_column, shape_of, written
from udf.time.intervals import from_integers, integers
from udf.time.patterns import BadPattern
from udf.time.timestamps import DEFAULT, FIRST_MS, LAST_MS, MIN_LONG, constant_shape, texts
from udf.vector import Vector

_STRING = pa.string()


def _simple(kind: DataType) -> Callable[[Types, Literals], DataType]:
    def result(types: Types, literals: Literals) -> DataType:
        for pattern in literals[1:2]:
            check_simple(pattern)
        return kind

    return result


def _unix_result(types: Types, literals: Literals) -> DataType:
    _simple(BIGINT)(types, literals)
    return BIGINT.with_nullable(nullable(types))


@function(
    "UNIX_TIMESTAMP",
    signature=Custom(texts(0, 2), _unix_result, "a string and a pattern"),
    deterministic=False,
)
def unix_timestamp(
    ctx: KernelContext, value: Values | None = None, pattern: Values | None = None
) -> Values | Vector:
    """UNIX_TIMESTAMP(): seconds since 1970-01-01 of the epoch's processing time;
    UNIX_TIMESTAMP(text [, pattern]): those of a text, read in the session's zone unless it names
    one (pattern letters z, Z, X); the smallest BIGINT for a text that does not fit. Error: a
    pattern with an unknown letter.

    >>> UNIX_TIMESTAMP('1970-01-01 00:01:00')
    60
    """
    if value is None:
        return pa.scalar(ctx.proctime_ms // 1000, pa.int64())
    given = pa.scalar(DEFAULT) if pattern is None else pattern
    zone = java_zone(ctx.zone)

    def seconds(texts: pa.Array) -> pa.Array:
        return per_distinct(lambda v: _seconds(v, given.as_py(), zone), pa.int64(), texts)

    if (
        is_constant(given)
        and isinstance(value, pa.Array)
        and given.is_valid
        and _is_simple(given.as_py())
    ):
        shape = constant_shape(given, simple_tokens) if ctx.zone == "UTC" else None
        if shape is not None:
            return read_column(value, shape, 1, seconds)
        return seconds(value)
    return Vector(
        *row_errors(ctx.num_rows, lambda v, p: _seconds(v, p, zone), pa.int64(), value, given)
    )


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
    return MIN_LONG if ms is None else ms // 1000


def _from_unix_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (1, 2) or not types[0].is_integer:
        return None
    return bigint.cast(types[0]), *[text.cast(t) for t in types[1:]]


@function(
    "FROM_UNIXTIME",
    signature=Custom(_from_unix_types, _simple(STRING), "a number of seconds and a pattern"),
)
def from_unixtime(ctx: KernelContext, value: Values, *pattern: Values) -> Values | Vector:
    """FROM_UNIXTIME(seconds [, pattern]): the text of the time in the session's zone, `yyyy-MM-dd
    HH:mm:ss` by default. Error: a pattern with an unknown letter.

    >>> FROM_UNIXTIME(44)
    '1970-01-01 00:00:44'
    """
    given = pattern[0] if pattern else pa.scalar(DEFAULT)
    fast = _written_fast(ctx, value, given)
    if fast is not None:
        return fast
    zone = java_zone(ctx.zone)
    return Vector(
        *row_errors(ctx.num_rows, lambda v, p: _write_simple(v, p, zone), _STRING, value, given)
    )


def _written_fast(ctx: KernelContext, value: Values, pattern: Values) -> Values | None:
    """Formats with Arrow, for plain patterns and the years 1 to 9999; None elsewhere."""
    if not is_constant(pattern) or not pattern.is_valid or not ctx.num_rows:
        return None
    shape = _simple_shape(pattern.as_py())
    numbers, present = integers(value, ctx.num_rows), valid(value, ctx.num_rows)
    if (
        shape is None
        or numbers.min() < FIRST_MS // 1000 + 86_400
        or numbers.max() > LAST_MS // 1000 - 86_400
    ):
        return None
    if ctx.zone != "UTC":
        numbers = integers(
            local(from_integers(numbers, present, pa.timestamp("s", "UTC")), ctx.zone), ctx.num_rows
        )
    return written(numbers, present, shape)


def _simple_shape(pattern: str) -> Shape | None:
    try:
        return shape_of(simple_tokens(pattern))
    except BadPattern:
        return None


def _write_simple(seconds: int, pattern: str, zone: tzinfo) -> str:
    try:
        return write_simple(wrap(seconds * 1000, 64), pattern, zone)
    except BadPattern as error:
        raise RowError(str(error)) from None


def _convert_zone(value: str, source: str, target: str) -> str | None:
    ms = read_simple(value, DEFAULT, java_zone(source))
    return None if ms is None else write_simple(ms, DEFAULT, java_zone(target))


@function("CONVERT_TZ", signature=takes(text, text, text, result=always_nullable(STRING)))
def convert_tz(ctx: KernelContext, value: Values, source: Values, target: Values) -> Values:
    """CONVERT_TZ(text, zone, zone): a time `yyyy-MM-dd HH:mm:ss` of the first zone as the clock of
    the second one shows it; NULL for an invalid text. Zones are names ('Europe/Berlin'),
    abbreviations ('PST') or offsets ('GMT-08:00'); any other is UTC.

    >>> CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')
    '1969-12-31 16:00:00'
    """
    fast = _converted_fast(value, source, target)
    return (
        map_text(ctx.num_rows, _convert_zone, _STRING, value, source, target)
        if fast is None
        else fast
    )


def _converted_fast(value: Values, source: Values, target: Values) -> Values | None:
    """Converts from UTC to a zone of the tz database, where all texts are plain ones of these
    years; None elsewhere."""
    if (
        not is_constant(source, target)
        or not isinstance(value, pa.Array)
        or source.as_py() != "UTC"
    ):
        return None
    zone, shape = java_zone(target.as_py() or ""), constant_shape(pa.scalar(DEFAULT), simple_tokens)
    if shape is None or not isinstance(zone, ZoneInfo) or zone.key != target.as_py():
        return None
    seconds, good = read(value, shape)
    present = valid(value, len(value))
    if not good[present].all() or (
        present.any() and (seconds.min() < -(2**31) or seconds.max() >= 2**31)
    ):
        return None
    shown = local(from_integers(seconds, present, pa.timestamp("s", "UTC")), zone.key)
    return written(integers(shown, len(value)), present, shape)
