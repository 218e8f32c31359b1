"""Functions of the current time: the epoch's processing time as an instant, a date, a time of
day."""

from __future__ import annotations

import pyarrow as pa

from parser.types import DATE, TimeAttribute, time, timestamp, timestamp_ltz
from udf.casts.texts import local
from udf.registry import KernelContext, Values, function
from udf.signatures import never_null, takes
from udf.time.intervals import (
    DAY_MS,
)

_LTZ3 = timestamp_ltz(3)


def _now(ctx: KernelContext) -> pa.Scalar:
    return pa.scalar(ctx.proctime_ms, pa.int64()).cast(pa.timestamp("ms", "UTC"))


@function(
    "CURRENT_TIMESTAMP",
    "NOW",
    "CURRENT_ROW_TIMESTAMP",
    signature=takes(result=never_null(_LTZ3)),
    deterministic=False,
)
def current_timestamp(ctx: KernelContext) -> Values:
    """CURRENT_TIMESTAMP, NOW(), CURRENT_ROW_TIMESTAMP(): the epoch's processing time.

    >>> CURRENT_TIMESTAMP IS NULL
    FALSE
    """
    return _now(ctx)


@function(
    "PROCTIME",
    signature=takes(result=never_null(_LTZ3.as_attribute(TimeAttribute.PROCTIME))),
    deterministic=False,
)
def proctime(ctx: KernelContext) -> Values:
    """PROCTIME(): the epoch's processing time, as a time attribute.

    >>> PROCTIME() IS NULL
    FALSE
    """
    return _now(ctx)


@function("LOCALTIMESTAMP", signature=takes(result=never_null(timestamp(3))), deterministic=False)
def localtimestamp(ctx: KernelContext) -> Values:
    """LOCALTIMESTAMP: the epoch's processing time as the session's wall clock shows it.

    >>> LOCALTIMESTAMP IS NULL
    FALSE
    """
    return local(_now(ctx), ctx.zone)


@function("CURRENT_DATE", signature=takes(result=never_null(DATE)), deterministic=False)
def current_date(ctx: KernelContext) -> Values:
    """CURRENT_DATE: the day of the epoch's processing time in the session's time zone.

    >>> CURRENT_DATE > DATE '2020-01-01'
    TRUE
    """
    return local(_now(ctx), ctx.zone).cast(pa.date32(), safe=False)


@function(
    "CURRENT_TIME", "LOCALTIME", signature=takes(result=never_null(time(0))), deterministic=False
)
def current_time(ctx: KernelContext) -> Values:
    """CURRENT_TIME, LOCALTIME: the time of day of the epoch's processing time in the session's time
    zone, in whole seconds.

    >>> CURRENT_TIME IS NULL
    FALSE
    """
    ms = local(_now(ctx), ctx.zone).cast(pa.int64()).as_py()
    return pa.scalar(ms % DAY_MS // 1000 * 1000, pa.int32()).cast(pa.time32("ms"))
