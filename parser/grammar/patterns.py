"""MATCH_RECOGNIZE."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar.cursor import mark
from parser.grammar.literals import interval
from parser.grammar.recursion import RecursiveCursor
from parser.nodes import (
    PatternAbsence,
    PatternChoice,
    PatternExclusion,
    PatternPermutation,
    PatternRepeat,
    PatternSequence,
    PatternSubset,
    Skip,
)

_BOUNDS = {"*": ("0", None), "+": ("1", None), "?": ("0", "1")}


def match_recognize(cursor: RecursiveCursor) -> exp.MatchRecognize:
    """MATCH_RECOGNIZE ( … )."""
    first = cursor.expect("MATCH_RECOGNIZE")
    cursor.expect("(")
    node = exp.MatchRecognize(
        partition_by=cursor.list_of(cursor.expression) if cursor.take("PARTITION", "BY") else None,
        order=cursor.order() if cursor.at("ORDER", "BY") else None,
        measures=cursor.list_of(lambda: _measure(cursor)) if cursor.take("MEASURES") else None,
        rows=_rows(cursor),
        after=_skip(cursor),
    )
    _pattern_clause(cursor, node)
    if cursor.take("WITHIN"):
        if not cursor.at("INTERVAL"):
            raise cursor.unexpected("expected INTERVAL")
        node.set("within", interval(cursor))
    if cursor.take("SUBSET"):
        node.set("subset", cursor.list_of(lambda: _subset(cursor)))
    cursor.expect("DEFINE")
    node.set("define", cursor.list_of(lambda: _definition(cursor)))
    cursor.expect(")")
    return mark(node, first, cursor.previous)


def _measure(cursor: RecursiveCursor) -> exp.Alias:
    token = cursor.token
    value = cursor.expression()
    cursor.expect("AS")
    return mark(exp.Alias(this=value, alias=cursor.identifier("the name of a measure")), token)


def _definition(cursor: RecursiveCursor) -> exp.Alias:
    """variable AS condition: an Alias, as for a measure."""
    token = cursor.token
    name = cursor.identifier("a variable")
    cursor.expect("AS")
    return mark(exp.Alias(this=cursor.expression(), alias=name), token)


def _rows(cursor: RecursiveCursor) -> exp.Var | None:
    token = cursor.token
    if cursor.take("ONE", "ROW", "PER", "MATCH"):
        return mark(exp.Var(this="ONE"), token, cursor.previous)
    if cursor.take("ALL", "ROWS", "PER", "MATCH"):
        return mark(exp.Var(this="ALL"), token, cursor.previous)
    return None


def _skip(cursor: RecursiveCursor) -> Skip | None:
    first = cursor.token
    if not cursor.take("AFTER"):
        return None
    cursor.expect("MATCH", "SKIP")
    variable = None
    if cursor.take("PAST"):
        cursor.expect("LAST", "ROW")
        kind = "PAST"
    else:
        cursor.expect("TO")
        kind = "NEXT" if cursor.take("NEXT", "ROW") else "LAST"
        if kind == "LAST":
            named = cursor.at("FIRST") or cursor.at("LAST")
            if named and cursor.peek().is_name and cursor.peek().word != "PATTERN":
                kind = cursor.advance().word
            variable = cursor.identifier("a variable")
    return mark(Skip(kind=kind, this=variable), first, cursor.previous)


def _pattern_clause(cursor: RecursiveCursor, node: exp.MatchRecognize) -> None:
    """PATTERN ([^] pattern [$])."""
    cursor.expect("PATTERN", "(")
    node.set("starts", cursor.take("^") or None)
    node.set("pattern", _choice(cursor))
    node.set("ends", cursor.take("$") or None)
    cursor.expect(")")


def _choice(cursor: RecursiveCursor) -> exp.Expression:
    depth = cursor.depth
    cursor.deeper()
    first = cursor.token
    items = [_sequence(cursor)]
    while cursor.take("|"):
        items.append(_sequence(cursor))
    cursor.depth = depth
    return (
        items[0]
        if len(items) == 1
        else mark(PatternChoice(expressions=items), first, cursor.previous)
    )


def _sequence(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.token
    items = [_factor(cursor)]
    while cursor.token.is_name or cursor.token.word in ("(", "{", "["):
        items.append(_factor(cursor))
    return (
        items[0]
        if len(items) == 1
        else mark(PatternSequence(expressions=items), first, cursor.previous)
    )


def _factor(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.token
    item = _primary(cursor)
    token = cursor.token
    low: exp.Expression | None
    high: exp.Expression | None
    if token.word in _BOUNDS:
        cursor.advance()
        low, high = (
            None if b is None else exp.Literal(this=b, is_string=False) for b in _BOUNDS[token.word]
        )
    elif token.word == "{" and cursor.peek().word != "-":
        low, high = _braces(cursor)
    else:
        return item
    reluctant = cursor.take("?")
    return mark(
        PatternRepeat(this=item, low=low, high=high, reluctant=reluctant or None),
        first,
        cursor.previous,
    )


def _braces(cursor: RecursiveCursor) -> tuple[exp.Expression | None, exp.Expression | None]:
    """{n}, {n,}, {n,m}, {,m}."""
    cursor.advance()
    low = _count(cursor) if not cursor.at(",") else None
    if not cursor.take(","):
        high = low.copy() if low is not None else None
    else:
        high = _count(cursor) if low is None or not cursor.at("}") else None
    cursor.expect("}")
    return low, high


def _count(cursor: RecursiveCursor) -> exp.Literal:
    token = cursor.token
    if token.token_type is not TokenType.NUMBER:
        raise cursor.unexpected("expected a number")
    return mark(exp.Literal(this=str(cursor.integer("a number")), is_string=False), token)


def _primary(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.token
    if cursor.take("("):
        node: exp.Expression = exp.Paren(this=_choice(cursor))
        cursor.expect(")")
    elif cursor.take("{"):
        cursor.expect("-")
        node = PatternExclusion(this=_choice(cursor))
        cursor.expect("-", "}")
    elif cursor.take("["):
        cursor.expect("^")
        node = PatternAbsence(this=cursor.identifier("a variable"))
        cursor.expect("]")
    elif cursor.take("PERMUTE"):
        node = PatternPermutation(expressions=cursor.wrapped(lambda: _choice(cursor)))
    else:
        return cursor.identifier("a variable")
    return mark(node, first, cursor.previous)


def _subset(cursor: RecursiveCursor) -> PatternSubset:
    token = cursor.token
    name = cursor.identifier("a variable")
    cursor.expect("=")
    return mark(
        PatternSubset(this=name, expressions=cursor.wrapped(cursor.expression)),
        token,
        cursor.previous,
    )
