"""Literals of times and intervals: their text is checked here, so that a bad one is an error of the statement."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.cursor import Cursor, mark
from parser.datatypes import type_node
from parser.errors import ParseError
from parser.lexer import Token
from parser.types import DATE, DataType, Root, time, timestamp

_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})\Z", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d*))?\Z", re.ASCII)
# Flink cuts what is finer.
_DIGITS = {"TIME": 3, "TIMESTAMP": 9}

# Unit -> (months, milliseconds); plural forms are the same unit.
UNITS: dict[str, tuple[int, int]] = {
    "YEAR": (12, 0),
    "QUARTER": (3, 0),
    "MONTH": (1, 0),
    "WEEK": (0, 604_800_000),
    "DAY": (0, 86_400_000),
    "HOUR": (0, 3_600_000),
    "MINUTE": (0, 60_000),
    "SECOND": (0, 1000),
}
# Units that only EXTRACT, CEIL, FLOOR and the TIMESTAMP functions know.
TIME_UNITS = frozenset(UNITS) | frozenset(
    "MILLENNIUM CENTURY DECADE EPOCH DOW ISODOW DOY ISOYEAR MILLISECOND MICROSECOND NANOSECOND".split()
)
# What a unit stays below when a larger one stands before it.
_LIMITS = {"MONTH": 12, "HOUR": 24, "MINUTE": 60, "SECOND": 60}
_SEPARATORS = {"MONTH": "-", "HOUR": " ", "MINUTE": ":", "SECOND": ":"}


def typed_literal(cursor: Cursor) -> exp.Cast:
    """DATE '…', TIME '…' or TIMESTAMP '…': a CAST of the string, in canonical form, to the literal's type."""
    first, token = cursor.advance(), cursor.token
    text = cursor.string(f"the text of a {first.word}")
    canonical, found = _canonical(first.word, text, token)
    to = type_node(found.with_nullable(False), first)
    node = exp.Cast(this=mark(exp.Literal(this=canonical, is_string=True), token), to=to)
    node.meta["literal"] = True
    return mark(node, first, token)


def _canonical(kind: str, text: str, token: Token) -> tuple[str, DataType]:
    """The text as CAST reads it, and the literal's type: its precision is the number of fractional digits."""
    if kind == "DATE":
        return _day(text, kind, token), DATE
    if kind == "TIME":
        clock, digits = _clock(text, kind, token)
        return clock, time(digits)
    day, space, rest = text.partition(" ")
    clock, digits = _clock(rest if space else "00:00:00", kind, token)
    return f"{_day(day, kind, token)} {clock}", timestamp(digits)


def _day(text: str, kind: str, token: Token) -> str:
    found = _DATE.match(text)
    try:
        return date(*map(int, found.groups())).isoformat() if found else _bad(kind, token)
    except ValueError:
        return _bad(kind, token)


def _clock(text: str, kind: str, token: Token) -> tuple[str, int]:
    found = _TIME.match(text)
    if found is None:
        return _bad(kind, token), 0
    hour, minute, second = map(int, found.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return _bad(kind, token), 0
    fraction = (found.group(4) or "")[: _DIGITS[kind]]
    return f"{hour:02}:{minute:02}:{second:02}" + (f".{fraction}" if fraction else ""), len(fraction)


_FORMS = {"DATE": "2024-12-31", "TIME": "23:59:59", "TIMESTAMP": "2024-12-31 23:59:59.999"}


def _bad(kind: str, token: Token) -> str:
    raise ParseError(f"{token} is no {kind}", hint=f"write {kind} '{_FORMS[kind]}'", position=token.position)


def time_unit(cursor: Cursor) -> exp.Var:
    """A unit of EXTRACT, CEIL, FLOOR or a TIMESTAMP function, as a Var in upper case."""
    token = cursor.token
    unit = token.word or token.text.upper()  # SQL_TSI_DAY is no keyword
    unit = unit.removeprefix("SQL_TSI_")
    if unit not in TIME_UNITS:
        raise cursor.unexpected("expected a unit of time, such as DAY or SECOND")
    cursor.advance()
    return mark(exp.Var(this=unit), token)


def interval(cursor: Cursor) -> exp.Interval:
    """INTERVAL '10' SECOND, INTERVAL '1-2' YEAR TO MONTH, INTERVAL 10 SECOND, …: `interval_value` gives its size."""
    first = cursor.advance()
    negative = cursor.take_any("-", "+") == "-"
    token = cursor.token
    quoted = token.token_type is TokenType.STRING
    if not quoted and token.token_type is not TokenType.NUMBER:
        hint = "multiply an interval of one unit: n * INTERVAL '1' SECOND"
        raise cursor.unexpected("expected the interval's value in single quotes", hint)
    cursor.advance()
    start, end, digits = _units(cursor)
    value = _interval_value(token, start, end, digits)
    unit: exp.Expression = exp.Var(this=start)
    if end != start:
        unit = exp.IntervalSpan(this=unit, expression=exp.Var(this=end))
    text = f"-{token.text}" if negative else token.text
    node = exp.Interval(this=mark(exp.Literal(this=text, is_string=True), token), unit=unit)
    node.meta["months"] = UNITS[start][0] > 0
    node.meta["value"] = -value if negative else value
    return mark(node, first, cursor.previous)


def difference(cursor: Cursor, minus: exp.Expression) -> exp.Expression:
    """(a - b) DAY, (a - b) YEAR TO MONTH: a call of TIMESTAMP MINUS with the family of the interval."""
    token = cursor.token
    start = _units(cursor)[0]
    family = mark(exp.Var(this="MONTH" if UNITS[start][0] else "SECOND"), token)
    operands = [family, minus.this, minus.args["expression"]]
    return mark(exp.Anonymous(this="TIMESTAMP MINUS", expressions=operands), token)


def interval_value(node: exp.Interval) -> tuple[Root, int]:
    """The family of an interval literal, and its size: months, or milliseconds."""
    return Root.INTERVAL_YEAR_MONTH if node.meta["months"] else Root.INTERVAL_DAY_TIME, node.meta["value"]


def _unit(cursor: Cursor) -> tuple[str, int]:
    """A unit, and how many digits its value may have: two unless a precision says more."""
    word = cursor.token.word
    unit = word[:-1] if word.endswith("S") else word
    if unit not in UNITS:
        raise cursor.unexpected("expected a unit: " + ", ".join(UNITS))
    cursor.advance()
    digits = 2
    if cursor.take("("):
        digits = cursor.list_of(lambda: cursor.integer("a precision"))[0]
        cursor.expect(")")
    return unit, digits


def _units(cursor: Cursor) -> tuple[str, str, int]:
    """The first and the last unit, and the digits of the first."""
    start, digits = _unit(cursor)
    if not cursor.take("TO"):
        return start, start, digits
    token = cursor.token
    end, _ = _unit(cursor)
    order = list(UNITS)
    if "QUARTER" in (start, end) or "WEEK" in (start, end) or order.index(end) <= order.index(start):
        raise ParseError(f"there is no interval of {start} TO {end}", position=token.position)
    if (UNITS[start][0] > 0) != (UNITS[end][0] > 0):
        raise ParseError("months and days do not mix in an interval", position=token.position)
    return start, end, digits


def _interval_value(token: Token, start: str, end: str, digits: int) -> int:
    """Months or milliseconds."""
    order = [u for u in UNITS if u not in ("QUARTER", "WEEK")]
    units = [start] if start == end else order[order.index(start) : order.index(end) + 1]
    parts = "".join((_SEPARATORS[u] if i else "") + r"(\d{1,10}" + _fraction(u) + ")" for i, u in enumerate(units))
    found = re.fullmatch(r"\s*([+-]?)\s*" + parts + r"\s*", token.text, re.ASCII)
    if found is None:
        span = start if start == end else f"{start} TO {end}"
        raise ParseError(f"{token} is no interval of {span}", position=token.position)
    values = [Decimal(text) for text in found.groups()[1:]]
    if int(values[0]) >= 10**digits:
        hint = f"write INTERVAL '{token.text}' {start}({len(str(int(values[0])))})"
        raise ParseError(f"{token} has more than {digits} digits in its {start}", hint=hint, position=token.position)
    for unit, value in zip(units[1:], values[1:], strict=True):
        if value >= _LIMITS[unit]:
            raise ParseError(f"{token} has {value} as its {unit}", position=token.position)
    total = sum(value * (UNITS[u][0] or UNITS[u][1]) for u, value in zip(units, values, strict=True))
    return -int(total) if found.group(1) == "-" else int(total)


def _fraction(unit: str) -> str:
    return r"(?:\.\d{1,9})?" if unit == "SECOND" else ""
