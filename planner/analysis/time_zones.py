"""Session time zones: their names, and the expressions that read them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from zoneinfo import ZoneInfo

from parser.errors import PlanError
from parser.types import DataType, Root
from planner.rewrite import rewrite
from planner.scalar import UTC, Call, Scalar, walk

# Functions that read the zone though neither their arguments nor their results are TIMESTAMP_LTZ.
_ZONED = frozenset(
    "UNIX_TIMESTAMP FROM_UNIXTIME CURRENT_DATE CURRENT_TIME LOCALTIME LOCALTIMESTAMP".split()
)


_NOT_IN_FLINK = frozenset({"EST", "MST", "HST"})  # to Java offsets, and no names of zones
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])0?(\d{1,2})(?::?00)?", re.ASCII)


@lru_cache(maxsize=256)
def zone_of(setting: str) -> str:
    """The time zone that a setting names, as the tz database has it. PlanError where there is
    none."""
    offset = _OFFSET.fullmatch(setting)
    # In the tz database the sign is that of POSIX: west is positive.
    name = setting if offset is None else f"Etc/GMT{'-' if offset[1] == '+' else '+'}{offset[2]}"
    try:
        if name in _NOT_IN_FLINK:
            raise KeyError(name)
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = "use a name such as 'Europe/Berlin', or a whole number of hours such as 'GMT+02:00'"
        raise PlanError(f"unknown time zone '{setting}'", hint=hint) from None
    return name


def uses_zone(expression: Scalar) -> bool:
    return any(isinstance(n, Call) and _zoned(n) for n in walk(expression))


def with_zone(expression: Scalar, zone: str) -> Scalar:
    """The expression with the zone at each call that reads it."""

    def set_zone(call: Call) -> Scalar:
        return replace(call, zone=zone) if _zoned(call) else call

    return expression if zone == UTC else rewrite(expression, set_zone)


def _zoned(call: Call) -> bool:
    if call.function in _ZONED:
        return True
    kinds = [call.type, *(a.type for a in call.args)]
    # Comparing two TIMESTAMP_LTZ needs no zone, but telling which calls are such saves nothing.
    return any(map(_has_instants, kinds))


def _has_instants(kind: DataType) -> bool:
    return kind.root is Root.TIMESTAMP_LTZ or any(map(_has_instants, kind.children))
