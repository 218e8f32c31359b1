"""Calls with keywords between their arguments, such as TRIM(LEADING x FROM y): the arguments in
order, a keyword that says something as a Var."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from parser.grammar.calls import after, anonymous, arguments_from
from parser.grammar.cursor import mark
from parser.grammar.datatypes import begins_type, cast_target
from parser.grammar.json_calls import JSON_FUNCTIONS, json_arguments
from parser.grammar.lexer import Token
from parser.grammar.literals import TIME_UNITS, time_unit
from parser.grammar.recursion import RecursiveCursor
from parser.grammar.reserved import RESERVED


def _trim(cursor: RecursiveCursor) -> exp.Expression:
    """TRIM(x), TRIM(chars FROM x), TRIM(LEADING | TRAILING | BOTH [chars] FROM x): [x] or [mode,
    chars, x]."""
    name = _open(cursor)
    token = cursor.token
    mode = cursor.take_any("LEADING", "TRAILING", "BOTH")
    value = None if mode and cursor.at("FROM") else cursor.expression()
    if mode is None and not cursor.at("FROM"):
        return _close(cursor, name, [value] if value else [], more=True)
    characters: exp.Expression = exp.Literal(this=" ", is_string=True)
    if cursor.take("FROM"):
        characters, value = value or characters, cursor.expression()
    assert value is not None
    return _close(cursor, name, [mark(exp.Var(this=mode or "BOTH"), token), characters, value])


def _extract(cursor: RecursiveCursor) -> exp.Expression:
    """EXTRACT(unit FROM x): [unit, x]."""
    name = _open(cursor)
    unit = time_unit(cursor)
    cursor.expect("FROM")
    return _close(cursor, name, [unit, cursor.expression()])


def _keyed(*words: str, above: int = 0) -> Callable[[RecursiveCursor], exp.Expression]:
    """The form with `words` or commas between the arguments, the last of which may be missing:
    SUBSTRING(x FROM n FOR m) is [x, n, m]. The first argument has no operator that binds less
    tightly than `above`."""

    def parse(cursor: RecursiveCursor) -> exp.Expression:
        name = _open(cursor)
        arguments = [cursor.expression(above)]
        arguments += [cursor.expression() for word in words if cursor.take_any(word, ",")]
        return _close(cursor, name, arguments, more=True)

    return parse


def _round_to_unit(cursor: RecursiveCursor) -> exp.Expression:
    """CEIL(x TO unit), FLOOR(x TO unit): [x, unit]."""
    name = _open(cursor)
    arguments = [cursor.expression()]
    if cursor.take("TO"):
        arguments.append(time_unit(cursor))
    return _close(cursor, name, arguments, more=len(arguments) == 1)


def _unit_first(cursor: RecursiveCursor) -> exp.Expression:
    """TIMESTAMPADD(unit, n, x), TIMESTAMPDIFF(unit, a, b): the unit is a Var."""
    name = _open(cursor)
    arguments: list[exp.Expression] = [time_unit(cursor)]
    while cursor.take(","):
        arguments.append(cursor.expression())
    return _close(cursor, name, arguments)


def _unit_last(cursor: RecursiveCursor) -> exp.Expression:
    """DATE_TRUNC(x, unit), TIMESTAMP_DIFF(a, b, unit) and the like; DATE_TRUNC('year', x) has no
    unit."""
    name = _open(cursor)
    arguments: list[exp.Expression] = [cursor.expression()]
    while cursor.take(","):
        unit = cursor.token.word in TIME_UNITS and cursor.peek().word in (")", "(")
        arguments.append(time_unit(cursor) if unit else cursor.expression())
    return _close(cursor, name, arguments)


def _using(cursor: RecursiveCursor) -> exp.Expression:
    """CONVERT(x USING charset), TRANSLATE(x USING charset): [x, charset as a Var]; also with
    commas. CONVERT(type, x) is CAST(x AS type)."""
    name = _open(cursor)
    if name.word == "CONVERT" and cursor.token.word in RESERVED and begins_type(cursor.token.word):
        return _converted(cursor, name)
    arguments: list[exp.Expression] = [cursor.expression()]
    if cursor.take("USING"):
        token = cursor.name("a character set")
        return _close(cursor, name, [*arguments, mark(exp.Var(this=token.text), token)])
    return _close(cursor, name, arguments, more=True)


def _converted(cursor: RecursiveCursor, name: Token) -> exp.Expression:
    target = cast_target(cursor)
    cursor.expect(",")
    value = cursor.expression()
    cursor.expect(")")
    return cursor.with_suffixes(mark(exp.Cast(this=value, to=target), name, cursor.previous))


def _json(cursor: RecursiveCursor) -> exp.Expression:
    name = _open(cursor)
    return _close(cursor, name, json_arguments(cursor, name.word))


def _open(cursor: RecursiveCursor) -> Token:
    name = cursor.advance()
    cursor.expect("(")
    return name


def _close(
    cursor: RecursiveCursor, name: Token, arguments: list[exp.Expression], more: bool = False
) -> exp.Expression:
    """The end of a call; with `more`, it turned out to be one with commas."""
    if more and cursor.take(","):
        arguments_from(cursor, arguments)
    cursor.expect(")")
    return after(cursor, anonymous(name, arguments))


CALLS: dict[str, Callable[[RecursiveCursor], exp.Expression]] = {
    "TRIM": _trim,
    "EXTRACT": _extract,
    "POSITION": _keyed("IN", "FROM", above=33),
    "SUBSTRING": _keyed("FROM", "FOR"),
    "OVERLAY": _keyed("PLACING", "FROM", "FOR"),
    "CEIL": _round_to_unit,
    "CEILING": _round_to_unit,
    "FLOOR": _round_to_unit,
    "TIMESTAMPADD": _unit_first,
    "TIMESTAMPDIFF": _unit_first,
    "CONVERT": _using,
    "TRANSLATE": _using,
    **dict.fromkeys(JSON_FUNCTIONS, _json),
    **dict.fromkeys(("DATE_TRUNC", "DATETIME_TRUNC", "TIMESTAMP_TRUNC", "TIME_TRUNC"), _unit_last),
    **dict.fromkeys(("DATE_DIFF", "DATETIME_DIFF", "TIMESTAMP_DIFF", "TIME_DIFF"), _unit_last),
}
