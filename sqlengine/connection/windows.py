"""Windows of streams: TUMBLE and its siblings, without their tables."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final, TypeAlias

from parser.errors import ServiceError
from parser.writer.names import backticked
from parser.writer.values import literal

Length: TypeAlias = "dt.timedelta | str"

_UNITS: Final = tuple(
    (unit, dt.timedelta(**{f"{unit.lower()}s": 1})) for unit in ("DAY", "HOUR", "MINUTE", "SECOND")
)
# The most that an interval of one unit has, unless it says how many digits.
_TWO_DIGITS: Final = 99


@dataclass(frozen=True)
class Window:
    """A window of a table function: TUMBLE and its siblings, without the table."""

    function: str
    time: str
    lengths: tuple[str, ...]

    def over(self, table: str) -> str:
        """The call for a table."""
        lengths = "".join(f", {length}" for length in self.lengths)
        return (
            f"TABLE({self.function}(TABLE {table}, DESCRIPTOR({backticked(self.time)}){lengths}))"
        )


def tumble(time: str, size: Length) -> Window:
    """Windows of one size, one behind the other. `time`: the column with the row time; lengths are
    timedeltas or intervals of SQL."""
    return Window("TUMBLE", time, (interval(size),))


def hop(time: str, slide: Length, size: Length) -> Window:
    """Windows of one size, of which one begins with each slide."""
    return Window("HOP", time, (interval(slide), interval(size)))


def cumulate(time: str, step: Length, size: Length) -> Window:
    """Windows that grow by a step up to their size."""
    return Window("CUMULATE", time, (interval(step), interval(size)))


def sessions(time: str, gap: Length) -> Window:
    """Windows that end where nothing comes for a gap."""
    return Window("SESSION", time, (interval(gap),))


def interval(length: Length) -> str:
    """An interval of SQL. ServiceError for what is no length, BadValue for one that SQL cannot say,
    such as microseconds."""
    if isinstance(length, str):
        return length
    if not isinstance(length, dt.timedelta):
        raise ServiceError(
            f"a length is a timedelta or an interval of SQL, not {length!r}",
            hint="timedelta(minutes=1)",
        )
    for unit, size in _UNITS:
        count, rest = divmod(length, size)
        if not rest and 0 < count <= _TWO_DIGITS:
            return f"INTERVAL '{count}' {unit}"
    return literal(length)
