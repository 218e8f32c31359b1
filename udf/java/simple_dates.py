"""Java's older date patterns (SimpleDateFormat), which FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE and
CONVERT_TZ go by: fields overflow into the next larger one, text behind the pattern is ignored, and
the time zone is a field."""

from __future__ import annotations

import re
from calendar import isleap
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from parser.errors import PlanError
from udf.casts.parsing import EPOCH
from udf.time.patterns import DAYS, MONTHS, BadPattern, Token, tokens_of

_LETTERS = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_NUMERIC = frozenset("yYwWDdFuHkKhmsS")
# Abbreviations of zones that Java knows and the tz database does not.
_SHORT = {
    "PST": "America/Los_Angeles",
    "CST": "America/Chicago",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "ECT": "Europe/Paris",
    "BST": "Asia/Dhaka",
    "CTT": "Asia/Shanghai",
    "AST": "America/Anchorage",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "ART": "Africa/Cairo",
    "PNT": "America/Phoenix",
    "NST": "Pacific/Auckland",
    "VST": "Asia/Ho_Chi_Minh",
    "Z": "UTC",
}
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_SECONDS_PER_DAY = 86_400
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


@lru_cache(maxsize=256)
def java_zone(name: str) -> tzinfo:
    """The zone that a name, an abbreviation or an offset such as GMT-08:00 means; UTC for anything
    else."""
    match = re.fullmatch(r"GMT([+-])([0-9]{1,2})(?::?([0-9]{2}))?", name)
    if match is not None:
        return _fixed(match[1], match[2], match[3])
    if name in _SHORT:
        return ZoneInfo(_SHORT[name])
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


def _fixed(sign: str, hours: str, minutes: str | None) -> tzinfo:
    size = timedelta(hours=min(int(hours), 23), minutes=int(minutes or 0))
    return timezone(size if sign == "+" else -size)


def seconds_at(wall: int, zone: tzinfo) -> int:
    """The instant at which the clock of a zone shows `wall`; of two, the one in winter time, and
    where the clock skips it, as far behind the skip as it lies in it."""
    # Python's datetime ends at the years 1 and 9999; out there the zone is ignored.
    if not _FIRST + _SECONDS_PER_DAY <= wall <= _LAST - _SECONDS_PER_DAY:
        return wall
    shown = datetime(1970, 1, 1) + timedelta(seconds=wall)
    # `fold` tells the two readings of an ambiguous time apart; outside of a change they are equal.
    # The smaller offset is winter time, and in a gap the one before the skip.
    offsets = [shown.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
    return wall - int(min(offsets).total_seconds())


def offset_at(seconds: int, zone: tzinfo) -> int:
    """Returns how many seconds the clock of a zone is ahead of UTC at an instant."""
    if not _FIRST + _SECONDS_PER_DAY <= seconds <= _LAST - _SECONDS_PER_DAY:
        return 0
    offset = datetime.fromtimestamp(seconds, UTC).astimezone(zone).utcoffset()
    return int(offset.total_seconds()) if offset else 0


def simple_tokens(pattern: str) -> tuple[Token, ...]:
    """The tokens of an older pattern; BadPattern for an unknown letter or an open quote."""
    return tokens_of(pattern, _LETTERS, "")


def check_simple(pattern: object) -> None:
    """PlanError for a literal pattern that no function could use."""
    if isinstance(pattern, str):
        try:
            simple_tokens(pattern)
        except BadPattern as error:
            raise PlanError(str(error)) from None


@dataclass(frozen=True)
class _Shown:
    """An instant as the clock of a zone shows it; the year may be beyond 9999."""

    year: int
    day: date
    second: int
    ms: int
    zone: tzinfo
    offset: int
    seconds: int


def _shown(ms: int, zone: tzinfo) -> _Shown:
    seconds, rest = divmod(ms, 1000)
    offset = offset_at(seconds, zone)
    days, second = divmod(seconds + offset, _SECONDS_PER_DAY)
    # Days beyond Python's calendar are moved by whole cycles of 400 years: 146 097 days, which is a
    # multiple of seven, so that the weekday stays too.
    cycles = (days + EPOCH - 1) // 146_097  # a day of the same name and place, 400 years apart
    inside = days - cycles * 146_097 if not 1 <= days + EPOCH <= date.max.toordinal() else days
    day = date.fromordinal(inside + EPOCH)
    return _Shown(
        day.year + (days - inside) // 146_097 * 400, day, second, rest, zone, offset, seconds
    )


def write_simple(ms: int, pattern: str, zone: tzinfo) -> str:
    """An instant by the pattern. BadPattern."""
    shown = _shown(ms, zone)
    return "".join(_written(t, shown) for t in simple_tokens(pattern))


def _written(token: Token, at: _Shown) -> str:
    n, day, hour = token.count, at.day, at.second // 3600
    match token.letter:
        case "":
            return token.literal
        case "G":
            return "AD" if at.year > 0 else "BC"
        case "y" | "Y":
            # The week year: the last days of December may lie in week 1 of the next year.
            year = at.year + (_next_year(day) if token.letter == "Y" else 0)
            # `yy` shows the last two digits, any other count fills up with zeros.
            return f"{year % 100:02d}" if n == 2 else str(year).zfill(n)
        case "M" | "L" if n > 2:
            return MONTHS[day.month - 1][: 3 if n == 3 else None]
        case "E":
            return DAYS[day.weekday()][: 3 if n < 4 else None]
        case "a":
            return "AM" if hour < 12 else "PM"
        case "z" | "Z" | "X":
            return _zone_text(token, at)
    return str(_number_of(token.letter, at)).zfill(n)


def _number_of(letter: str, at: _Shown) -> int:
    """The field that a letter of SimpleDateFormat stands for, as a number."""
    day, hour = at.day, at.second // 3600
    # Fields as SimpleDateFormat numbers them: H is 0-23, k 1-24, K 0-11, h 1-12.
    numbers = {
        "M": day.month,
        "L": day.month,
        "d": day.day,
        "D": day.timetuple().tm_yday,
        "F": (day.day - 1) // 7 + 1,
        "u": day.isoweekday(),
        "w": _week(day),
        "W": (day.day + day.replace(day=1).isoweekday() % 7 - 1) // 7 + 1,
        "H": hour,
        "k": hour or 24,
        "K": hour % 12,
        "h": hour % 12 or 12,
        "m": at.second // 60 % 60,
        "s": at.second % 60,
        "S": at.ms,
    }
    return numbers[letter]


def _next_year(day: date) -> int:
    return 1 if _week(day) == 1 and day.month == 12 else 0


def _week(day: date) -> int:
    """Week of the year in the US: weeks begin on Sunday, the first is the one of January 1st."""
    # The day of the year of the week's Saturday: the week belongs to the year in which it ends.
    saturday = day.timetuple().tm_yday + (5 - day.weekday()) % 7
    return 1 if saturday > 365 + isleap(day.year) else (saturday - 1) // 7 + 1


def _zone_text(token: Token, at: _Shown) -> str:
    if token.letter == "z":
        name = datetime.fromtimestamp(at.seconds, UTC).astimezone(at.zone).tzname() or ""
        # A zone without an abbreviation in the tz database is named "+03" there; Java shows
        # GMT+03:00.
        return name if name[:1].isalpha() else f"GMT{_offset_text(at.offset, ':')}"
    if token.letter == "Z":
        return _offset_text(at.offset, "")
    if not at.offset:
        return "Z"
    whole = _offset_text(at.offset, ":" if token.count == 3 else "")
    return whole[:3] if token.count == 1 else whole


def _offset_text(offset: int, between: str) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}{between}{minutes % 60:02d}"


@lru_cache(maxsize=1024)
def _reading(pattern: str) -> tuple[re.Pattern[str], tuple[Token, ...]]:
    tokens = simple_tokens(pattern)
    parts, fields = [], []
    for i, token in enumerate(tokens):
        if not token.letter:
            parts.append(re.escape(token.literal))
            continue
        # Where digits follow digits at once, a field takes exactly as many as it has letters; else
        # as many as there are.
        followed = i + 1 < len(tokens) and _is_numeric(tokens[i + 1])
        parts.append(f"({_expected(token, followed)})")
        fields.append(token)
    return re.compile("".join(parts), re.IGNORECASE), tuple(fields)


def _is_numeric(token: Token) -> bool:
    return token.letter in _NUMERIC or (token.letter in ("M", "L") and token.count < 3)


def _expected(token: Token, followed: bool) -> str:
    if _is_numeric(token):
        return rf"\ *-?[0-9]{{{token.count}}}" if followed else r"\ *-?[0-9]{1,18}"
    match token.letter:
        case "M" | "L":
            # The long name first: an alternation takes the first that matches.
            return "|".join(f"{m}|{m[:3]}" for m in MONTHS)
        case "E":
            return "|".join(f"{d}|{d[:3]}" for d in DAYS)
        case "a":
            return "AM|PM"
        case "G":
            return "AD|BC"
        case "X":
            return "Z|[+-][0-9]{2}" + (
                "" if token.count == 1 else "[0-9]{2}" if token.count == 2 else ":[0-9]{2}"
            )
    return r"(?:GMT|UTC|UT)?[+-][0-9]{1,2}:?[0-9]{2}|[A-Za-z]{1,5}(?:/[A-Za-z_]+)*"


def read_simple(text: str, pattern: str, zone: tzinfo) -> int | None:
    """Milliseconds since 1970 of a text by the pattern, read in the zone unless the text names one;
    None where it does not fit. BadPattern."""
    compiled, tokens = _reading(pattern)
    match = compiled.match(text)
    if match is None:
        return None
    # A letter that is given twice: the last one counts.
    fields = {t.letter: match[i + 1].strip() for i, t in enumerate(tokens)}
    wall = _wall(fields, {t.letter: t.count for t in tokens})
    if wall is None:
        return None
    seconds, ms = divmod(wall, 1000)
    written = fields.get("X") or fields.get("Z") or fields.get("z")
    if written is None:
        return seconds_at(seconds, zone) * 1000 + ms
    # An offset such as +02:00 is a fixed zone, anything else a name; both override the session's
    # zone.
    offset = _OFFSET.fullmatch(written)
    named = java_zone(written) if offset is None else _fixed(offset[1], offset[2], offset[3])
    return seconds_at(seconds, named) * 1000 + ms


def _wall(fields: dict[str, str], counts: dict[str, int]) -> int | None:
    """Milliseconds of the wall clock since 1970; fields that are too large overflow."""
    year = _year(fields.get("y") or fields.get("Y"), counts.get("y", 4))
    written = fields.get("M") or fields.get("L") or "1"
    month = int(written) if written.lstrip("-").isdigit() else _named(written, MONTHS)
    # Month 13 is January of the next year, month 0 December of the last.
    years, month = divmod(month - 1, 12)
    if not 1 <= year + years <= 9999:
        return None
    first = date(year + years, month + 1, 1).toordinal() - EPOCH
    days = (
        # `D` (day of the year) counts from January unless a day of the month is there as well.
        first
        + (
            int(fields.get("D", 1))
            if "D" in fields and "d" not in fields
            else int(fields.get("d", 1))
        )
        - 1
    )
    seconds = _hour(fields) * 3600 + int(fields.get("m", 0)) * 60 + int(fields.get("s", 0))
    return (days * _SECONDS_PER_DAY + seconds) * 1000 + int(fields.get("S", 0))


def _named(text: str, names: tuple[str, ...]) -> int:
    return next(i for i, name in enumerate(names, 1) if name[:3].lower() == text[:3].lower())


def _year(text: str | None, count: int) -> int:
    """Two digits for `yy` are a year from 80 years ago on, seen from 2025."""
    if text is None:
        return 1970
    # 1945 to 2044: from 80 years before 2025 to 19 after.
    return 1945 + (int(text) - 45) % 100 if count <= 2 and len(text) == 2 else int(text)


def _hour(fields: dict[str, str]) -> int:
    if "H" in fields or "k" in fields:
        return int(fields["H"]) if "H" in fields else int(fields["k"]) % 24
    hour = int(fields.get("h") or fields.get("K") or 0)
    afternoon = fields.get("a", "").upper() == "PM"
    # 12 AM is midnight and 12 PM noon, hence the remainder by 12.
    return hour % 12 + 12 * afternoon if "h" in fields or "K" in fields else 12 * afternoon
