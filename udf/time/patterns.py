"""Java's date and time patterns (`yyyy-MM-dd HH:mm:ss`): writing and reading points in time by
them."""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from parser.errors import PlanError
from udf.casts.parsing import DAY_NS, EPOCH, lenient_days

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_ORDINALS = ("1st", "2nd", "3rd", "4th")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Letters that are written; those that are also read.
_WRITTEN = frozenset("GyuYMLdDEFaHhKkmsSnNAQqwWec")
_READ = frozenset("yuMLdEaHhKkmsSXxZzVO")
_LETTERS = _WRITTEN | _READ
_ASKS_FOR_ZONE = "pattern letter '{}' asks for a time zone, and a timestamp has none"


class BadPattern(Exception):
    """The pattern has a letter that Java or this version does not know."""


@dataclass(frozen=True)
class Token:
    """`count` times a pattern letter, or a literal text (letter '')."""

    letter: str
    count: int
    literal: str = ""


@lru_cache(maxsize=1024)
def tokens_of(
    pattern: str, letters: frozenset[str] = _LETTERS, reserved: str = "[]{}#"
) -> tuple[Token, ...]:
    """The pattern's tokens; BadPattern for a letter that is not among `letters`, a `reserved` sign,
    or an open quote."""
    tokens: list[Token] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == "'":
            at, text = _quoted_end(pattern, at)
            tokens.append(Token("", 0, text))
        elif c.isascii() and c.isalpha():
            run = len(pattern[at:]) - len(pattern[at:].lstrip(c))
            if c not in letters:
                raise BadPattern(f"pattern letter '{c}' is not supported in '{pattern}'")
            tokens.append(Token(c, run))
            at += run
        elif c in reserved:
            raise BadPattern(f"'{c}' is not supported in the pattern '{pattern}'")
        else:
            tokens.append(Token("", 0, c))
            at += 1
    return tuple(tokens)


def _quoted_end(pattern: str, start: int) -> tuple[int, str]:
    """The end of the quoted text that begins there, and the text. BadPattern."""
    # Two quotes outside of a quotation are one quote.
    if pattern.startswith("''", start):
        return start + 2, "'"
    match = re.compile(r"'((?:[^']|'')*)'").match(pattern, start)
    if match is None:
        raise BadPattern(f"a quote is not closed in the pattern '{pattern}'")
    return match.end(), match[1].replace("''", "'")


def check_pattern(pattern: object) -> None:
    """PlanError for a literal pattern by which nothing can be written."""
    if isinstance(pattern, str):
        try:
            letters = {t.letter for t in tokens_of(pattern)}
        except BadPattern as error:
            raise PlanError(str(error)) from None
        for letter in sorted(letters - _WRITTEN - {""}):
            raise PlanError(_ASKS_FOR_ZONE.format(letter))


@dataclass(frozen=True)
class Moment:
    """A point in time, taken apart; `nanos` since midnight."""

    day: date
    nanos: int

    @staticmethod
    def of(nanos: int) -> Moment:
        """Splits nanoseconds since 1970-01-01. OverflowError outside the years 1 to 9999."""
        days, rest = divmod(nanos, DAY_NS)
        return Moment(date.fromordinal(EPOCH + days), rest)

    @property
    def hour(self) -> int:
        return self.nanos // 3_600_000_000_000


def write(nanos: int, pattern: str) -> str | None:
    """The point in time by the pattern; None outside the years 1 to 9999."""
    try:
        moment = Moment.of(nanos)
    except (OverflowError, ValueError):
        return None
    return "".join(_written(t, moment) for t in tokens_of(pattern))


def _written(token: Token, moment: Moment) -> str:
    """Writes one token as DateTimeFormatter does. BadPattern for a letter of time zones."""
    n, day = token.count, moment.day
    match token.letter:
        case "":
            return token.literal
        case "y" | "u":
            return _year_text(day.year, n)
        case "Y":
            # The week year: days at the end of December may lie in week 1 of the next year.
            return _year_text(day.year + (day.month == 12 and _week(day) == 1), n)
        case "G":
            return "A" if n == 5 else "AD" if n < 4 else "Anno Domini"
        case "M" | "L" if n > 2:
            return MONTHS[day.month - 1][: {3: 3, 5: 1}.get(n)]
        case "E":
            return _day_name(day, n)
        case "Q" | "q" if n > 2:
            return _quarter_text((day.month + 2) // 3, n)
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "S":
            # The fraction is cut to so many digits, not rounded.
            return f"{moment.nanos % 1_000_000_000:09d}".ljust(n, "0")[:n]
    return str(_number_of(token.letter, moment)).zfill(n)


def _year_text(year: int, count: int) -> str:
    return f"{year % 100:02d}" if count == 2 else str(year).zfill(count)


def _day_name(day: date, count: int) -> str:
    return DAYS[day.weekday()][: 3 if count < 4 else 1 if count == 5 else None]


def _quarter_text(quarter: int, count: int) -> str:
    """Q3 (three letters), 3rd quarter (four), 3 (five)."""
    if count == 5:
        return str(quarter)
    return f"Q{quarter}" if count == 3 else f"{_ORDINALS[quarter - 1]} quarter"


def _number_of(letter: str, moment: Moment) -> int:
    """The field that a letter stands for, as a number. BadPattern for a letter of time zones."""
    day, seconds = moment.day, moment.nanos // 1_000_000_000
    numbers = {
        "M": day.month,
        "L": day.month,
        "d": day.day,
        "D": day.timetuple().tm_yday,
        "Q": (day.month + 2) // 3,
        "q": (day.month + 2) // 3,
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": seconds // 60 % 60,
        "s": seconds % 60,
        "n": moment.nanos % 1_000_000_000,
        # Sunday is 1.
        "e": day.isoweekday() % 7 + 1,
        "w": _week(day),
        "c": day.isoweekday() % 7 + 1,
        "F": (day.day - 1) % 7 + 1,
        "W": (day.day + day.replace(day=1).isoweekday() % 7 - 1) // 7 + 1,
        "A": moment.nanos // 1_000_000,
        "N": moment.nanos,
    }
    if letter not in numbers:
        raise BadPattern(_ASKS_FOR_ZONE.format(letter))
    return numbers[letter]


def _week(day: date) -> int:
    """Week of the year in the US: weeks begin on Sunday, the first is the one of January 1st."""
    # The day of the year of the week's Saturday: a week belongs to the year in which it ends.
    saturday = day.timetuple().tm_yday + (5 - day.weekday()) % 7
    return 1 if saturday > 365 + isleap(day.year) else (saturday - 1) // 7 + 1


@dataclass(frozen=True)
class _Reading:
    pattern: re.Pattern[str]
    letters: tuple[str, ...]


@lru_cache(maxsize=1024)
def _reading(pattern: str, lenient: bool) -> _Reading:
    tokens = tokens_of(pattern)
    parts, letters = [], []
    for i, token in enumerate(tokens):
        if not token.letter:
            parts.append(re.escape(token.literal))
            continue
        if token.letter not in _READ:
            raise BadPattern(f"pattern letter '{token.letter}' cannot be read in '{pattern}'")
        # A field with digits right behind it must not take theirs.
        followed = i + 1 < len(tokens) and bool(tokens[i + 1].letter)
        parts.append(f"({_expected(token, lenient, followed)})")
        letters.append(token.letter)
    return _Reading(re.compile("".join(parts), re.IGNORECASE if lenient else 0), tuple(letters))


def _expected(token: Token, lenient: bool, followed: bool) -> str:
    """The regular expression of the texts that a token reads; `followed`: by another letter."""
    n = token.count
    match token.letter:
        case "M" | "L" if n > 2:
            return _names(MONTHS, short_only=n == 3 and not lenient)
        case "E":
            return _names(DAYS, short_only=n < 4 and not lenient)
        case "a":
            return "AM|PM"
        case "X" | "x" | "Z" | "z" | "V" | "O":
            return "Z|(?:GMT|UTC)?[+-][0-9]{1,2}(?::?[0-9]{2}){0,2}|[A-Za-z]+(?:/[A-Za-z_]+)*"
    if lenient and not followed:
        return "[0-9]{1,9}"
    is_year = token.letter in "yu"
    if n == 1:
        return "[0-9]{1,9}" if is_year else "[0-9]{1,2}"
    # Years of three letters and more may have more digits than letters.
    return f"[0-9]{{{n},9}}" if is_year and n > 2 and not followed else f"[0-9]{{{n}}}"


def _names(names: Sequence[str], *, short_only: bool) -> str:
    return "|".join(name[:3] if short_only else f"{name}|{name[:3]}" for name in names)


def read(text: str, pattern: str, *, lenient: bool = False) -> int | None:
    """Nanoseconds since 1970-01-01 of a text by the pattern; None where it does not fit. What the
    pattern lacks is that of 1970-01-01 00:00:00. If `lenient`, text after the pattern is ignored
    and fields overflow into the next larger."""
    reading = _reading(pattern, lenient)
    # Only lenient reading lets more text follow.
    match = reading.pattern.match(text) if lenient else reading.pattern.fullmatch(text)
    if match is None:
        return None
    fields = {letter: match[i + 1] for i, letter in enumerate(reading.letters)}
    year = _year(fields)
    month = _month(fields.get("M") or fields.get("L") or "1")
    day = int(fields.get("d", "1"))
    hour, minute, second = _hour(fields), int(fields.get("m", "0")), int(fields.get("s", "0"))
    fraction = fields.get("S", "")
    time = ((hour * 60 + minute) * 60 + second) * 1_000_000_000
    if lenient:
        return _rolled(year, month, day, time + int(fraction or 0) * 1_000_000)
    days = lenient_days(year, month, day)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    return days * DAY_NS + time + int(fraction.ljust(9, "0")[:9] or 0)


def _year(fields: dict[str, str]) -> int:
    text = fields.get("y") or fields.get("u") or "1970"
    # Two digits are a year from 2000 to 2099.
    return 2000 + int(text) if len(text) == 2 else int(text)


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    return next(i for i, m in enumerate(MONTHS, 1) if m[:3].lower() == text[:3].lower())


def _hour(fields: dict[str, str]) -> int:
    if "H" in fields or "k" in fields:
        # Hour 24 of the letter k is midnight.
        return int(fields["H"]) if "H" in fields else int(fields["k"]) % 24
    hour = (
        int(fields.get("h") or fields.get("K") or 0) % 12 if "h" in fields or "K" in fields else 0
    )
    # 12 PM is noon, as 12 is 0 after the remainder.
    return hour + 12 if fields.get("a", "").upper() == "PM" else hour


def _rolled(year: int, month: int, day: int, time: int) -> int | None:
    # Month 13 is January of the next year.
    years, month = divmod(month - 1, 12)
    try:
        first = date(year + years, month + 1, 1).toordinal() - EPOCH
    except (ValueError, OverflowError):
        return None
    return (first + day - 1) * DAY_NS + time
