"""The format 'syslog': lines of RFC 5424, and of RFC 3164 as far as they follow it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING, Column, DataType, Root, map_of
from sqlengine.formats.base import Option
from sqlengine.formats.logs.base import LENIENT, LogFormat, Parse
from sqlengine.formats.options import integer

IntArray = npt.NDArray[np.int64]

FACILITIES: Final = (
    *"kern user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp audit alert".split(),
    *("clock", *(f"local{n}" for n in range(8))),
)
SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_GUESS: Final = "guess"
_SD: Final = r'-|(?:\[[^\x00-\x20="\]]+(?: [^\x00-\x20="\]]+="(?:[^"\\\]]|\\.)*")*\])+'
# Patterns of RE2: it takes time in proportion to a line, whatever is in it.
_NEW: Final = (
    r"(?s)^<(?P<priority>[0-9]{1,3})>(?P<version>[1-9][0-9]{0,2}) (?P<timestamp>[^ ]+)"
    r" (?P<host>[^ ]+) (?P<app>[^ ]+) (?P<procid>[^ ]+) (?P<msgid>[^ ]+)"
    rf" (?P<structured_data>{_SD})(?: (?:\x{{FEFF}})?(?P<message>.*))?$"
)
_DAY: Final = r"[A-Z][a-z]{2} [ 0-9][0-9]|[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_OLD: Final = (
    rf"(?s)^(?:<(?P<priority>[0-9]{{1,3}})>)?(?P<timestamp>(?:{_DAY})[T ]{_CLOCK})"
    r" (?P<host>[^ ]+)(?: (?P<app>[^ :\[\]]{1,128})(?:\[(?P<procid>[^\]]{1,128})\])?:)?"
    r"(?: ?(?P<message>.*))?$"
)
_NAMES: Final = (
    "priority",
    "version",
    "timestamp",
    "host",
    "app",
    "procid",
    "msgid",
    "structured_data",
    "message",
)
_SD_ELEMENT: Final = re.compile(r'\[([^\s=\]"]+)((?: [^\s=\]"]+="(?:[^"\\\]]|\\.)*")*)\]')
_SD_PARAM: Final = re.compile(r' ([^\s=\]"]+)="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_SD_ESCAPED: Final = re.compile(r'\\(["\\\]])')
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def year(text: str) -> int | None:
    """Parses the option 'year': None for 'guess'. ValueError for another text that is no year."""
    if text.strip().lower() == _GUESS:
        return None
    value = integer(text)
    if not 1970 <= value <= 9999:
        raise ValueError("expected a year, or 'guess'")
    return value


def zone(text: str) -> ZoneInfo:
    """Parses the name of a time zone. ValueError where there is none of this name."""
    try:
        return ZoneInfo(text.strip())
    except (OSError, ValueError):
        raise ValueError("expected the name of a time zone such as 'Europe/Berlin'") from None


OPTIONS: Final[Mapping[str, Option]] = {
    "year": Option(
        year, default=_GUESS, doc="of times without one; 'guess': that which makes them nearest now"
    ),
    "time-zone": Option(zone, default="UTC", doc="of times without an offset"),
    "ignore-parse-errors": LENIENT,
}


@dataclass(frozen=True)
class OldTimes:
    """The rules for times without a year or an offset."""

    year: int | None
    zone: ZoneInfo

    @classmethod
    def of(cls, values: Mapping[str, object]) -> OldTimes:
        given, found = values["year"], values["time-zone"]
        assert given is None or isinstance(given, int)
        assert isinstance(found, ZoneInfo)
        return cls(given, found)

    def text(self, text: str, now: datetime) -> str:
        """Returns a time with year and offset; one that is none as it is."""
        try:
            if text[:1].isdigit():
                told = datetime.fromisoformat(text)
                return text if told.tzinfo else _iso(text, told.replace(tzinfo=self.zone))
            return _iso(text, self._dated(text, now))
        except (ValueError, OverflowError):
            return text

    def _dated(self, text: str, now: datetime) -> datetime:
        month, day = _MONTHS.index(text[:3]) + 1, int(text[4:6])
        hour, minute, second = (int(part) for part in text[7:15].split(":"))
        years = [now.year - 1, now.year, now.year + 1] if self.year is None else [self.year]
        found = [
            datetime(y, month, day, hour, minute, second, tzinfo=self.zone)
            for y in years
            if (month, day) != (2, 29) or _is_leap(y)
        ]
        if not found:
            raise ValueError("29 February of no leap year")
        return min(found, key=lambda t: abs(t - now))


def _is_leap(number: int) -> bool:
    return number % 4 == 0 and (number % 100 != 0 or number % 400 == 0)


def _iso(text: str, told: datetime) -> str:
    """Returns the instant in UTC, with the fraction that `text` has."""
    fraction = re.search(r"\.[0-9]+", text)
    utc = told.replace(microsecond=0, tzinfo=None) - (told.utcoffset() or timedelta(0))
    return f"{utc.isoformat()}{fraction[0] if fraction else ''}Z"


class SyslogFormat(LogFormat):
    """An extension."""

    name: ClassVar[str] = "syslog"
    rest: ClassVar[str] = "structured_data"
    options: ClassVar[Mapping[str, Option]] = OPTIONS

    def holds(self, column: Column) -> bool:
        """See `LogFormat`."""
        nested = map_of(STRING, map_of(STRING, STRING)).arrow
        return column.name == "structured_data" and column.type.arrow == nested

    def parse(self, values: Mapping[str, object]) -> Parse:
        """See `LogFormat`."""
        rules = OldTimes.of(values)
        return lambda texts: parse_syslog(texts, rules)


@dataclass
class Lines:
    """The fields of lines as columns of texts."""

    columns: dict[str, pa.Array]
    bad: dict[int, str] = field(default_factory=dict)

    def column(self, name: str, kind: DataType) -> pa.Array | None:
        """See `Parsed`."""
        found = self.columns.get(name)
        if name == "structured_data" and kind.root is Root.MAP:
            assert found is not None
            elements = [structured_data(t) for t in found.to_pylist()]
            return pa.array(elements, kind.arrow)
        if name in ("facility_name", "severity_name"):
            names = pa.array(FACILITIES if name == "facility_name" else SEVERITIES)
            return names.take(self.columns[name.removesuffix("_name")].cast(pa.int32()))
        return found

    def rest(self, known: frozenset[str]) -> list[list[tuple[str, str]]]:
        """Returns structured data with the id of its element in front of each name."""
        texts = self.columns["structured_data"].to_pylist()
        return [
            [(f"{e}.{k}", v) for e, params in structured_data(t) or [] for k, v in params]
            for t in texts
        ]


def structured_data(text: str | None) -> list[tuple[str, list[tuple[str, str]]]] | None:
    """Returns the elements of structured data with their parameters; None where there are none. Of
    an id, or a name, that stands twice the last one counts."""
    if text is None:
        return None
    elements = {
        element[1]: list(
            {p[1]: _SD_ESCAPED.sub(r"\1", p[2]) for p in _SD_PARAM.finditer(element[2])}.items()
        )
        for element in _SD_ELEMENT.finditer(text)
    }
    return list(elements.items())


def parse_syslog(texts: pa.Array, rules: OldTimes) -> Lines:
    """Returns the fields of lines of either RFC; '-' is NULL."""
    # A line break at the end belongs to how lines are separated.
    texts = pc.utf8_rtrim(texts, "\r\n\x00")
    new = _extracted(texts, _NEW)
    old = np.flatnonzero(np.asarray(new["priority"].is_null()))
    columns = _with_old(texts, new, old, rules) if len(old) else new
    none = np.flatnonzero(np.asarray(columns["host"].is_null())).tolist()
    bad = dict.fromkeys(none, "it is no line of RFC 5424 or RFC 3164")
    priority = columns["priority"].cast(pa.int32())
    high = np.asarray(pc.greater(priority, 191).fill_null(False))
    bad |= {int(r): "its priority is above 191" for r in np.flatnonzero(high)}
    priority = pc.if_else(pa.array(high), pa.scalar(None, pa.int32()), priority)
    columns["facility"] = pc.shift_right(priority, 3).cast(pa.string())
    columns["severity"] = pc.bit_wise_and(priority, 7).cast(pa.string())
    for name in ("timestamp", "host", "app", "procid", "msgid", "structured_data"):
        column = columns[name]
        columns[name] = pc.if_else(pc.equal(column, "-"), pa.scalar(None, pa.string()), column)
    return Lines(columns, bad)


def _extracted(texts: pa.Array, pattern: str) -> dict[str, pa.Array]:
    """Returns the groups of a pattern; NULL where there is no match, and for groups without any."""
    found = pc.extract_regex(texts, pattern)
    matched = found.is_valid()
    columns = {}
    for name in _NAMES:
        at = found.type.get_field_index(name)
        if at < 0:
            columns[name] = pa.nulls(len(texts), pa.string())
            continue
        filled = pc.and_(matched, pc.not_equal(found.field(at), ""))
        columns[name] = pc.if_else(filled, found.field(at), pa.scalar(None, pa.string()))
    return columns


def _with_old(
    texts: pa.Array, new: dict[str, pa.Array], rows: IntArray, rules: OldTimes
) -> dict[str, pa.Array]:
    """Returns the fields of all lines: those of RFC 3164 in these rows."""
    found = _extracted(texts.take(pa.array(rows)), _OLD)
    now = datetime.fromtimestamp(time.time(), UTC)
    # Many lines are of one second.
    times = pc.dictionary_encode(found["timestamp"])
    known = pa.array([rules.text(t, now) for t in times.dictionary.to_pylist()], pa.string())
    found["timestamp"] = known.take(times.indices)
    at = np.arange(len(texts))
    at[rows] = len(texts) + np.arange(len(rows))
    index = pa.array(at)
    return {n: pa.concat_arrays([new[n], found[n]]).take(index) for n in _NAMES}
