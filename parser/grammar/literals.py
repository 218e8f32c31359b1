"""Literals of times and intervals: their text is checked here, so that a bad one is an error of the
statement."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError, PlanError, Position
from parser.grammar.cursor import Cursor, mark
from parser.grammar.datatypes import type_node, type_of
from parser.grammar.lexer import Token
from parser.grammar.reserved import RESERVED
from parser.grammar.time_types import refuse_zone
from parser.types import DATE, DataType, Root, time, timestamp, timestamp_ltz

_DATE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})\Z", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d*))?\Z", re.ASCII)
_NUMBER = re.compile(
    r"\s*+[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,3})?\s*\Z", re.ASCII | re.IGNORECASE
)
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
    (
        "MILLENNIUM CENTURY DECADE EPOCH DOW ISODOW DOY ISOYEAR MILLISECOND MICROSECOND NANOSECOND"
    ).split()
)
_WEEKDAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
# What a unit stays below when a larger one stands before it.
_LIMITS = {"MONTH": 12, "HOUR": 24, "MINUTE": 60, "SECOND": 60}
# Flink has no intervals of days and smaller units with more digits in the first of them.
_MOST_DIGITS = 3
_SEPARATORS = {"MONTH": "-", "HOUR": " ", "MINUTE": ":", "SECOND": ":"}


def typed_literal(cursor: Cursor) -> exp.Cast:
    """DATE '…', TIME '…' or TIMESTAMP '…': a CAST of the string, in canonical form, to the
    literal's type."""
    first = cursor.advance()
    local = first.word == "TIMESTAMP" and cursor.take("WITH", "LOCAL", "TIME", "ZONE")
    if not local:
        refuse_zone(cursor, first.word)
    token = cursor.token
    text = cursor.string(f"the text of a {first.word}").lstrip(" ")
    return _point(first.word, text, local, first, token)


def decimal_literal(cursor: Cursor) -> exp.Expression:
    """DECIMAL '1.50': the number itself, an INT or BIGINT where it has no fraction."""
    first = cursor.advance()
    token = cursor.token
    text = cursor.string("the digits of a DECIMAL")
    if not _NUMBER.match(text):
        _bad(first.word, token)
    value = Decimal(text.strip())
    number = mark(exp.Literal(this=format(abs(value), "f"), is_string=False), first, token)
    return mark(exp.Neg(this=number), first, token) if value < 0 else number


def braced_literal(cursor: Cursor) -> exp.Cast:
    """{d '…'}, {t '…'} or {ts '…'}: the same as DATE, TIME, TIMESTAMP."""
    first = cursor.advance()
    kind = _BRACED[cursor.advance().word]
    token = cursor.token
    text = cursor.string(f"the text of a {kind}")
    return _point(kind, text, False, first, token, cursor.expect("}"))


def _point(
    kind: str, text: str, local: bool, first: Token, token: Token, last: Token | None = None
) -> exp.Cast:
    """A literal is known by its type: the only one of a CAST that is NOT NULL."""
    canonical, kind_of_literal = _canonical(kind, text, token)
    if local:
        kind_of_literal = timestamp_ltz(kind_of_literal.precision)
    to = type_node(kind_of_literal.with_nullable(False), first)
    return mark(
        exp.Cast(this=mark(exp.Literal(this=canonical, is_string=True), token), to=to),
        first,
        last or token,
    )


def is_typed_literal(node: exp.Expression) -> bool:
    """True if a Cast is a literal such as DATE '2024-12-31'."""
    return not type_of(node.args["to"]).nullable


def _canonical(kind: str, text: str, token: Token) -> tuple[str, DataType]:
    """The text as CAST reads it, and the literal's type: its precision is the number of fractional
    digits."""
    if kind == "DATE":
        return _day(text, kind, token), DATE
    if kind == "DATETIME":
        return text, DataType(Root.NAMED, names=("DATETIME",))
    if kind == "TIME":
        clock, digits = _clock(text, kind, token)
        return clock, time(digits)
    day, space, rest = text.partition(" ")
    clock, digits = _clock(rest.lstrip(" ") if space else "00:00:00", kind, token)
    return f"{_day(day, kind, token)} {clock}", timestamp(digits)


def _day(text: str, kind: str, token: Token) -> str:
    match = _DATE.match(text)
    try:
        return date(*map(int, match.groups())).isoformat() if match else _bad(kind, token)
    except ValueError:
        return _bad(kind, token)


def _clock(text: str, kind: str, token: Token) -> tuple[str, int]:
    match = _TIME.match(text)
    if match is None:
        return _bad(kind, token), 0
    hour, minute, second = map(int, match.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return _bad(kind, token), 0
    fraction = (match.group(4) or "")[: _DIGITS[kind]]
    return f"{hour:02}:{minute:02}:{second:02}" + (f".{fraction}" if fraction else ""), len(
        fraction
    )


_BRACED = {"D": "DATE", "T": "TIME", "TS": "TIMESTAMP"}
_FORMS = {
    "DECIMAL": "1.50",
    "DATE": "2024-12-31",
    "TIME": "23:59:59",
    "TIMESTAMP": "2024-12-31 23:59:59.999",
}


def _bad(kind: str, token: Token) -> str:
    raise ParseError(
        f"{token} is no {kind}", hint=f"write {kind} '{_FORMS[kind]}'", position=token.position
    )


def time_unit(cursor: Cursor) -> exp.Expression:
    """A unit of EXTRACT, CEIL, FLOOR or a TIMESTAMP function: a Var in upper case, or the call
    WEEK(weekday)."""
    token = cursor.token
    if token.word not in TIME_UNITS and (not token.is_name or token.word in RESERVED):
        raise cursor.unexpected("expected a unit of time, such as DAY or SECOND")
    cursor.advance()
    if token.word == "WEEK" and cursor.take("("):
        day = cursor.token
        weekday = mark(exp.Var(this=cursor.one_of(*_WEEKDAYS)), day)
        cursor.expect(")")
        return mark(exp.Anonymous(this="WEEK", expressions=[weekday]), token, cursor.previous)
    return mark(exp.Var(this=token.text.upper().removeprefix("SQL_TSI_")), token)


def interval(cursor: Cursor, named: bool = True) -> exp.Interval:
    """INTERVAL '10' SECOND, INTERVAL '1-2' YEAR TO MONTH, INTERVAL 10 SECOND, …: `interval_value`
    gives its size. Where `named` is False, the word INTERVAL is not there."""
    first = cursor.advance() if named else cursor.token
    sign = cursor.token
    negative = cursor.take_any("-", "+") == "-"
    token = cursor.token
    quoted = token.token_type is TokenType.STRING
    if not quoted and token.token_type is not TokenType.NUMBER:
        raise cursor.unexpected("expected the interval's value in single quotes")
    cursor.advance()
    start, end, unit = interval_unit(cursor)
    value = _interval_value(token, start, end)
    operand: exp.Expression = mark(exp.Literal(this=token.text, is_string=quoted), token)
    node = exp.Interval(this=mark(exp.Neg(this=operand), sign) if negative else operand, unit=unit)
    node.meta["months"] = UNITS[start][0] > 0
    node.meta["value"] = -value if negative else value
    node.meta["leading"] = int(re.findall(r"\d+", token.text)[0])
    return mark(node, first, cursor.previous)


def at_interval_literal(cursor: Cursor) -> bool:
    """True if a string or a number follows INTERVAL, perhaps behind a sign, and no other
    expression."""
    ahead = 2 if cursor.peek().word in ("-", "+") else 1
    return cursor.peek(ahead).token_type in (TokenType.STRING, TokenType.NUMBER)


def interval_value(node: exp.Interval) -> tuple[Root, int]:
    """The family of an interval literal, and its size: months, or milliseconds. Raises KeyError
    where the interval is no literal, as in INTERVAL x DAY, and PlanError where its first unit has
    more digits than its precision says, two if it says nothing."""
    unit = node.args["unit"]
    unit = unit.this if isinstance(unit, exp.IntervalSpan) else unit
    digits = int(unit.expressions[0].name) if unit.expressions else 2
    leading = node.meta["leading"]
    if not node.meta["months"] and digits > _MOST_DIGITS:
        hint = f"write {leading} * INTERVAL '1' {unit.name}"
        raise PlanError(
            f"an interval of {unit.name} has at most {_MOST_DIGITS} digits",
            hint=hint,
            position=_place(node),
        )
    if leading >= 10**digits:
        hint = f"write INTERVAL '{node.this.name}' {unit.name}({len(str(leading))})"
        raise PlanError(
            f"'{node.this.name}' has more than {digits} digits in its {unit.name}",
            hint=hint,
            position=_place(node),
        )
    return Root.INTERVAL_YEAR_MONTH if node.meta["months"] else Root.INTERVAL_DAY_TIME, node.meta[
        "value"
    ]


def _place(node: exp.Interval) -> Position:
    return Position(
        node.this.meta["line"],
        node.this.meta["col"],
        node.meta["end"] - node.this.meta["start"] + 1,
    )


def _unit(cursor: Cursor) -> tuple[str, exp.Expression]:
    """A unit, and its node: a Var, or a call where it has precisions."""
    token = cursor.token
    unit = token.word[:-1] if token.word.endswith("S") else token.word
    if unit not in UNITS:
        raise cursor.unexpected("expected a unit: " + ", ".join(UNITS))
    cursor.advance()
    if not cursor.at("("):
        return unit, mark(exp.Var(this=unit), token)
    digits = cursor.wrapped(
        lambda: exp.Literal(this=str(cursor.integer("a precision")), is_string=False)
    )
    return unit, mark(exp.Anonymous(this=unit, expressions=digits), token, cursor.previous)


def interval_unit(cursor: Cursor) -> tuple[str, str, exp.Expression]:
    """unit [(precision)] [TO unit]: the first and the last unit, and the node."""
    start, unit = _unit(cursor)
    order = [u for u in UNITS if u not in ("QUARTER", "WEEK")]
    smaller = order[order.index(start) + 1 :] if start in order else []
    # FLOOR(ts + INTERVAL '1' DAY TO MONTH) is FLOOR(… TO MONTH)
    if any(cursor.at("TO", u, ")") for u in UNITS if u not in smaller) or not cursor.take("TO"):
        return start, start, unit
    token = cursor.token
    end, last = _unit(cursor)
    if end not in smaller:
        raise ParseError(f"there is no interval of {start} TO {end}", position=token.position)
    if (UNITS[start][0] > 0) != (UNITS[end][0] > 0):
        raise ParseError("months and days do not mix in an interval", position=token.position)
    return start, end, exp.IntervalSpan(this=unit, expression=last)


def _interval_value(token: Token, start: str, end: str) -> int:
    """Months or milliseconds."""
    order = [u for u in UNITS if u not in ("QUARTER", "WEEK")]
    units = [start] if start == end else order[order.index(start) : order.index(end) + 1]
    parts = "".join(
        (_SEPARATORS[u] if i else "") + r"(\d{1,10}" + _fraction(u) + ")"
        for i, u in enumerate(units)
    )
    match = re.fullmatch(r"\s*+([+-]?)\s*+" + parts + r"\s*", token.text, re.ASCII)
    if match is None:
        span = start if start == end else f"{start} TO {end}"
        raise ParseError(f"{token} is no interval of {span}", position=token.position)
    values = [Decimal(text) for text in match.groups()[1:]]
    for unit, value in zip(units[1:], values[1:], strict=True):
        if value >= _LIMITS[unit]:
            raise ParseError(f"{token} has {value} as its {unit}", position=token.position)
    total = sum(
        value * (UNITS[u][0] or UNITS[u][1]) for u, value in zip(units, values, strict=True)
    )
    return -int(total) if match.group(1) == "-" else int(total)


def _fraction(unit: str) -> str:
    return r"(?:\.\d{1,6})?" if unit == "SECOND" else ""
