"""Predicates behind or between operands: IS, IN, BETWEEN, LIKE, and the operators of multisets and
periods."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from parser.grammar.cursor import mark
from parser.grammar.recursion import RecursiveCursor
from parser.nodes import FormatJson, MemberOf, MultisetOperation, PeriodPredicate, SubmultisetOf

# How tightly operators bind; all but LIKE group from the left.
NOT, IS, COMPARISON, RANGE = 26, 28, 30, 32
_MULTISET = {"UNION": 14, "EXCEPT": 14, "INTERSECT": 18}
_AFTER_NOT = ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "SIMILAR", "SUBMULTISET")
_PERIODS = ("CONTAINS", "EQUALS", "PRECEDES", "SUCCEEDS")
_LIKES: dict[str, type[exp.Expression]] = {
    "LIKE": exp.Like,
    "ILIKE": exp.ILike,
    "RLIKE": exp.RegexpLike,
}

# The words that can begin what is parsed here, and how tightly it binds. That of MULTISET depends
# on the next word.
BINDS: dict[str, int] = {
    "IS": IS,
    "FORMAT": IS,
    "NOT": RANGE,
    **dict.fromkeys(("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "SIMILAR"), RANGE),
    **dict.fromkeys((*_PERIODS, "IMMEDIATELY", "MEMBER", "SUBMULTISET"), COMPARISON),
    "MULTISET": 14,
}


def predicate(cursor: RecursiveCursor, left: exp.Expression, minimum: int) -> exp.Expression | None:
    """`left` with what follows it, or None where that binds less tightly than `minimum` or is no
    operator."""
    word = cursor.token.word
    if word in _WORD_PAIRS and cursor.peek().word not in _WORD_PAIRS[word]:
        return None
    if word == "MULTISET" and _MULTISET.get(cursor.peek().word, -1) < minimum:
        return None
    if word == "NOT" and cursor.peek().word == "SUBMULTISET" and minimum > COMPARISON:
        return None
    return _PARSERS[word](cursor, left)


def _is(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    cursor.advance()
    negated = cursor.take("NOT")
    if cursor.take("DISTINCT", "FROM"):
        right = cursor.expression(COMPARISON + 1)
        distinct = exp.NullSafeNEQ if not negated else exp.NullSafeEQ
        return distinct(this=left, expression=right)
    test = exp.Is(this=left, expression=_state(cursor))
    return exp.Not(this=test) if negated else test


def _state(cursor: RecursiveCursor) -> exp.Expression:
    """Parses the operand of IS: Null, Boolean, or a Var such as EMPTY, A_SET, JSON_OBJECT."""
    token = cursor.token
    if token.word in ("NULL", "UNKNOWN"):
        cursor.advance()
        return mark(exp.Null(kind=None if token.word == "NULL" else "UNKNOWN"), token)
    if token.word in ("TRUE", "FALSE"):
        cursor.advance()
        return mark(exp.Boolean(this=token.word == "TRUE"), token)
    if cursor.take("A", "SET"):
        return mark(exp.Var(this="A_SET"), token, cursor.previous)
    if cursor.take("EMPTY"):
        return mark(exp.Var(this="EMPTY"), token)
    if cursor.take("JSON"):
        kind = cursor.take_any("VALUE", "OBJECT", "ARRAY", "SCALAR") or "VALUE"
        return mark(exp.Var(this=f"JSON_{kind}"), token, cursor.previous)
    raise cursor.unexpected(
        "expected NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM, JSON, EMPTY or A SET"
    )


def _negatable(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    """[NOT] BETWEEN, IN, LIKE, ILIKE, RLIKE, SIMILAR TO, SUBMULTISET OF."""
    negated = cursor.take("NOT")
    token = cursor.token
    if token.word not in _AFTER_NOT:
        raise cursor.unexpected("expected " + ", ".join(_AFTER_NOT))
    match token.word:
        case "BETWEEN":
            test = _between(cursor, left)
        case "IN":
            test = _in(cursor, left)
        case "SUBMULTISET":
            test = _of(cursor, left)
        case _:
            test = _like(cursor, left)
    return exp.Not(this=test) if negated else test


def _like(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    kind = _LIKES.get(cursor.advance().word, exp.SimilarTo)
    if kind is exp.SimilarTo:
        cursor.expect("TO")
    like = kind(this=left, expression=cursor.expression(RANGE))
    if not cursor.take("ESCAPE"):
        return like
    return exp.Escape(this=like, expression=cursor.expression(RANGE))


def _between(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    cursor.advance()
    symmetric = cursor.take_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
    low = cursor.expression(NOT)
    cursor.expect("AND")
    high = cursor.expression(RANGE + 1)
    return exp.Between(this=left, low=low, high=high, symmetric=symmetric or None)


def _in(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    cursor.advance()
    first = cursor.expect("(")
    if cursor.at_query():
        query = exp.Subquery(this=cursor.query())
        if cursor.token.word == ")":
            cursor.advance()
            return exp.In(this=left, query=mark(query, first, cursor.previous))
        operands = [_operand_of(cursor, query)]
        if cursor.take(","):
            operands += cursor.list_of(cursor.expression)
    else:
        operands = cursor.list_of(cursor.expression)
    cursor.expect(")")
    return exp.In(this=left, expressions=operands)


def _operand_of(cursor: RecursiveCursor, query: exp.Subquery) -> exp.Expression:
    """The first value of `IN ((SELECT …) …, x)`: what began as a query is a scalar one in
    parentheses."""
    inner = query.this
    if not isinstance(inner, exp.Subquery):
        raise cursor.unexpected("expected )")
    return cursor.rest_of(inner)


def _multiset(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    cursor.advance()
    token = cursor.advance()
    distinct = cursor.take_any("ALL", "DISTINCT") == "DISTINCT"
    right = cursor.expression(_MULTISET[token.word] + 1)
    node = MultisetOperation(
        this=left, expression=right, kind=token.word, distinct=distinct or None
    )
    return mark(node, token)


def _of(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    token = cursor.advance()
    cursor.expect("OF")
    kind = MemberOf if token.word == "MEMBER" else SubmultisetOf
    return mark(kind(this=left, expression=cursor.expression(COMPARISON + 1)), token)


def _period(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    token = cursor.token
    immediately = "IMMEDIATELY_" if cursor.take("IMMEDIATELY") else ""
    kind = immediately + cursor.one_of(*(_PERIODS[2:] if immediately else _PERIODS))
    right = cursor.expression(COMPARISON + 1)
    return mark(PeriodPredicate(this=left, expression=right, kind=kind), token)


def _format(cursor: RecursiveCursor, left: exp.Expression) -> exp.Expression:
    token = cursor.advance()
    cursor.expect("JSON")
    if cursor.take("ENCODING"):
        cursor.one_of("UTF8", "UTF16", "UTF32")
    return mark(FormatJson(this=left), token, cursor.previous)


# Words that may be names: they are operators only in front of these.
_WORD_PAIRS = {"FORMAT": ("JSON",), "IMMEDIATELY": ("PRECEDES", "SUCCEEDS")}

_PARSERS: dict[str, Callable[[RecursiveCursor, exp.Expression], exp.Expression]] = {
    "IS": _is,
    "FORMAT": _format,
    "MULTISET": _multiset,
    "MEMBER": _of,
    **dict.fromkeys(("NOT", *_AFTER_NOT), _negatable),
    **dict.fromkeys((*_PERIODS, "IMMEDIATELY"), _period),
}
