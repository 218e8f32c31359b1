"""Operands of expressions that begin with a keyword, a sign, a bracket, or are a literal."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar.calls import call, table_name
from parser.grammar.cursor import mark
from parser.grammar.datatypes import cast_target
from parser.grammar.literals import (
    UNITS,
    at_interval_literal,
    braced_literal,
    decimal_literal,
    interval,
    interval_unit,
    typed_literal,
)
from parser.grammar.recursion import RecursiveCursor
from parser.grammar.reserved import RESERVED
from parser.grammar.texts import (
    bytes_literal,
    introduced_literal,
    national_literal,
    string_literal,
    unicode_literal,
)
from parser.nodes import (
    CursorOf,
    Difference,
    Jdbc,
    Modified,
    New,
    Plus,
    SafeCast,
    SequenceValue,
    Unique,
)

_SIGN = 80
# Units that turn (a - b) into an interval.
UNITS_AFTER = frozenset(f"{unit}{s}" for unit in UNITS for s in ("", "S"))


def _number(cursor: RecursiveCursor) -> exp.Expression:
    token = cursor.advance()
    return mark(exp.Literal(this=token.text, is_string=False), token)


def _parameter(cursor: RecursiveCursor) -> exp.Expression:
    """?"""
    return mark(exp.Placeholder(), cursor.advance())


def _brace(cursor: RecursiveCursor) -> exp.Expression:
    """{d '…'}, {t '…'}, {ts '…'} and {fn f(…)}."""
    if cursor.peek().word in ("D", "T", "TS"):
        return braced_literal(cursor)
    first = cursor.advance()
    cursor.expect("FN")
    inner = cursor.named()
    cursor.expect("}")
    return mark(Jdbc(this=inner), first, cursor.previous)


def _sign(cursor: RecursiveCursor) -> exp.Expression:
    token = cursor.advance()
    value = cursor.expression(_SIGN)
    return mark(exp.Neg(this=value) if token.word == "-" else Plus(this=value), token)


def difference(cursor: RecursiveCursor, paren: exp.Paren) -> exp.Expression:
    """(a - b) unit; behind another expression a unit that is not reserved is the name of a
    column."""
    inner = paren.this
    if type(inner) is not exp.Sub:
        if cursor.token.word not in RESERVED:
            return paren
        raise cursor.unexpected("only a difference of two times has a unit: (a - b) DAY")
    _, _, unit = interval_unit(cursor)
    node = Difference(this=inner.this, expression=inner.expression, unit=unit)
    node.meta.update(paren.meta)
    return node


def _case(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.advance()
    subject = None if cursor.at("WHEN") else cursor.expression()
    branches = []
    while cursor.at("WHEN"):
        branches += _branches(cursor)
    if not branches:
        raise cursor.unexpected("expected WHEN")
    default = cursor.expression() if cursor.take("ELSE") else None
    cursor.expect("END")
    return cursor.with_suffixes(
        mark(exp.Case(this=subject, ifs=branches, default=default), first, cursor.previous)
    )


def _branches(cursor: RecursiveCursor) -> list[exp.Expression]:
    """WHEN a, b THEN c is two branches."""
    token = cursor.advance()
    conditions = cursor.list_of(cursor.expression)
    cursor.expect("THEN")
    result = cursor.expression()
    results = [result, *(result.copy() for _ in conditions[1:])]
    return [mark(exp.If(this=c, true=r), token) for c, r in zip(conditions, results, strict=True)]


_CASTS: dict[str, type[exp.Expression]] = {
    "CAST": exp.Cast,
    "TRY_CAST": exp.TryCast,
    "SAFE_CAST": SafeCast,
}


def _cast(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.advance()
    cursor.expect("(")
    value = cursor.expression()
    cursor.expect("AS")
    target = cast_target(cursor)
    cursor.expect(")")
    node = _CASTS[first.word](this=value, to=target)
    return cursor.with_suffixes(mark(node, first, cursor.previous))


def _of_query(kind: type[exp.Expression]) -> Callable[[RecursiveCursor], exp.Expression]:
    """EXISTS (query), UNIQUE (query), CURSOR(query)."""

    def parse(cursor: RecursiveCursor) -> exp.Expression:
        first = cursor.advance()
        cursor.expect("(")
        query = cursor.query()
        cursor.expect(")")
        return mark(kind(this=query), first, cursor.previous)

    return parse


def _collection(cursor: RecursiveCursor) -> exp.Expression:
    """ARRAY[…], MAP[…] and MULTISET[…] are calls of functions with these names; so are ARRAY(…) and
    ARRAY(query)."""
    name = cursor.token
    following = cursor.peek().word
    if following == "(":
        cursor.advance()
        if not cursor.at_query():
            return cursor.with_suffixes(call(cursor, name))
        cursor.advance()
        items = [cursor.query()]
        cursor.expect(")")
    elif following == "[":
        cursor.advance()
        cursor.advance()
        items = [] if cursor.at("]") else cursor.list_of(cursor.expression)
        cursor.expect("]")
    else:
        return cursor.with_suffixes(cursor.named())
    return cursor.with_suffixes(mark(exp.Anonymous(this=name.word, expressions=items), name))


def _temporal(cursor: RecursiveCursor) -> exp.Expression:
    """DATE '…' is a literal, DATE(…) a call, and anything else an error: the words are reserved."""
    following = cursor.peek()
    if following.token_type is TokenType.STRING or following.word == "WITH":
        return typed_literal(cursor)
    return cursor.with_suffixes(cursor.named())


def _decimal(cursor: RecursiveCursor) -> exp.Expression:
    """DECIMAL '1.50' is the number 1.50; DECIMAL is a reserved word otherwise."""
    if cursor.peek().token_type is not TokenType.STRING:
        return cursor.with_suffixes(cursor.named())
    return decimal_literal(cursor)


def _interval(cursor: RecursiveCursor) -> exp.Expression:
    """A literal, or INTERVAL a.b DAY, INTERVAL (a + 1) DAY: an Interval of that expression."""
    if at_interval_literal(cursor):
        return interval(cursor)
    first = cursor.advance()
    sign = cursor.token
    negative = cursor.take_any("-", "+") == "-"
    opening = cursor.token
    if cursor.take("("):
        value: exp.Expression = exp.Paren(this=cursor.expression())
        cursor.expect(")")
        mark(value, opening, cursor.previous)
    else:
        value = cursor.column()
    _, _, unit = interval_unit(cursor)
    return mark(
        exp.Interval(this=mark(exp.Neg(this=value), sign) if negative else value, unit=unit), first
    )


def _modified(cursor: RecursiveCursor) -> exp.Expression:
    """RUNNING f(…), FINAL f(…)."""
    if not cursor.peek().is_name or cursor.peek(2).word != "(":
        return cursor.with_suffixes(cursor.named())
    first = cursor.advance()
    return mark(Modified(this=cursor.named(), kind=first.word), first)


def _sequence(cursor: RecursiveCursor) -> exp.Expression:
    """NEXT VALUE FOR s, CURRENT VALUE FOR s."""
    if cursor.peek().word != "VALUE":
        return cursor.with_suffixes(cursor.named())
    first = cursor.advance()
    cursor.expect("VALUE", "FOR")
    return mark(SequenceValue(this=table_name(cursor), kind=first.word), first)


def _new(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.advance()
    return mark(New(this=cursor.named()), first)


def _specific(cursor: RecursiveCursor) -> exp.Expression:
    """SPECIFIC f(…) names the function in another way, and it is the same function."""
    cursor.advance()
    return cursor.with_suffixes(cursor.named())


def _constant(cursor: RecursiveCursor) -> exp.Expression:
    token = cursor.advance()
    if token.word == "UNKNOWN":
        return mark(exp.Null(kind="UNKNOWN"), token)
    if token.word == "NULL":
        return mark(exp.Null(), token)
    return mark(exp.Boolean(this=token.word == "TRUE"), token)


STARTS: dict[str, Callable[[RecursiveCursor], exp.Expression]] = {
    "-": _sign,
    "+": _sign,
    "?": _parameter,
    "{": _brace,
    "CASE": _case,
    "EXISTS": _of_query(exp.Exists),
    "UNIQUE": _of_query(Unique),
    "CURSOR": _of_query(CursorOf),
    "INTERVAL": _interval,
    "NEW": _new,
    "SPECIFIC": _specific,
    **dict.fromkeys(_CASTS, _cast),
    **dict.fromkeys(("ARRAY", "MAP", "MULTISET"), _collection),
    **dict.fromkeys(("DATE", "TIME", "TIMESTAMP", "DATETIME"), _temporal),
    "DECIMAL": _decimal,
    **dict.fromkeys(("RUNNING", "FINAL"), _modified),
    **dict.fromkeys(("NEXT", "CURRENT"), _sequence),
    **dict.fromkeys(("NULL", "UNKNOWN", "TRUE", "FALSE"), _constant),
}

LITERALS: dict[TokenType, Callable[[RecursiveCursor], exp.Expression]] = {
    TokenType.NUMBER: _number,
    TokenType.STRING: string_literal,
    TokenType.HEX_STRING: bytes_literal,
    TokenType.NATIONAL_STRING: national_literal,
    TokenType.UNICODE_STRING: unicode_literal,
    TokenType.INTRODUCER: introduced_literal,
}
