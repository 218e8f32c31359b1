"""Which expressions read the session's time zone."""

from __future__ import annotations

from parser.types import Root
from planner.scalar import Call, Scalar, walk

# Functions that read the zone though neither their arguments nor their results are TIMESTAMP_LTZ.
_ZONED = frozenset("UNIX_TIMESTAMP FROM_UNIXTIME CURRENT_DATE CURRENT_TIME LOCALTIME LOCALTIMESTAMP".split())


def uses_zone(expression: Scalar) -> bool:
    return any(isinstance(n, Call) and _zoned(n) for n in walk(expression))


def _zoned(call: Call) -> bool:
    if call.function in _ZONED:
        return True
    kinds = [call.type, *(a.type for a in call.args)]
    # Comparing two TIMESTAMP_LTZ needs no zone, but telling which calls are such saves nothing.
    return any(t.root is Root.TIMESTAMP_LTZ for t in kinds)
