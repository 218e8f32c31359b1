"""PIVOT, UNPIVOT and TABLESAMPLE."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar.cursor import mark
from parser.grammar.recursion import RecursiveCursor
from parser.nodes import Pivot, Sample, Unpivot, UnpivotValue


def pivot(cursor: RecursiveCursor) -> Pivot:
    """PIVOT (aggregate [AS name], … FOR columns IN (value [AS name], …))."""
    first = cursor.expect("PIVOT")
    cursor.expect("(")
    aggregates = cursor.list_of(lambda: _named(cursor, cursor.named()))
    cursor.expect("FOR")
    columns = _columns(cursor)
    cursor.expect("IN")
    values = (
        [] if cursor.take("(", ")") else cursor.wrapped(lambda: _named(cursor, cursor.expression()))
    )
    cursor.expect(")")
    return mark(
        Pivot(expressions=aggregates, columns=columns, values=values), first, cursor.previous
    )


def _named(cursor: RecursiveCursor, value: exp.Expression) -> exp.Expression:
    """`value` with the name behind it, if there is one; parentheses around one value say
    nothing."""
    inner = value.this if isinstance(value, exp.Paren) else value
    if not cursor.take("AS") and not cursor.at_alias():
        return inner
    return exp.Alias(this=inner, alias=cursor.identifier("a name"))


def _columns(cursor: RecursiveCursor) -> list[exp.Identifier]:
    """Parses one name, or several in parentheses."""
    if cursor.at("("):
        return cursor.wrapped(lambda: cursor.identifier("a column"))
    return [cursor.identifier("a column")]


def unpivot(cursor: RecursiveCursor) -> Unpivot:
    """UNPIVOT [INCLUDE NULLS | EXCLUDE NULLS] (measures FOR axes IN (columns [AS values], …))."""
    first = cursor.expect("UNPIVOT")
    nulls = cursor.take_any("INCLUDE", "EXCLUDE")
    if nulls:
        cursor.expect("NULLS")
    cursor.expect("(")
    measures = _columns(cursor)
    cursor.expect("FOR")
    axes = _columns(cursor)
    cursor.expect("IN")
    values = cursor.wrapped(lambda: _unpivoted(cursor))
    cursor.expect(")")
    return mark(
        Unpivot(expressions=measures, columns=axes, values=values, nulls=nulls),
        first,
        cursor.previous,
    )


def _unpivoted(cursor: RecursiveCursor) -> UnpivotValue:
    columns = _columns(cursor)
    values: list[exp.Expression] | None = None
    if cursor.take("AS"):
        row = cursor.expression()
        inner = row.this if isinstance(row, exp.Paren) else row
        values = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    return UnpivotValue(columns=columns, values=values)


def sample(cursor: RecursiveCursor) -> Sample:
    """TABLESAMPLE BERNOULLI | SYSTEM (percentage) [REPEATABLE (seed)] | SUBSTITUTE ('name')."""
    first = cursor.expect("TABLESAMPLE")
    method = cursor.one_of("BERNOULLI", "SYSTEM", "SUBSTITUTE")
    cursor.expect("(")
    size = _literal(cursor, TokenType.STRING if method == "SUBSTITUTE" else TokenType.NUMBER)
    cursor.expect(")")
    seed = None
    if cursor.take("REPEATABLE"):
        cursor.expect("(")
        negative = cursor.take_any("-", "+") == "-"
        seed = _literal(cursor, TokenType.NUMBER)
        seed = exp.Neg(this=seed) if negative else seed
        cursor.expect(")")
    return mark(Sample(method=method, size=size, seed=seed), first, cursor.previous)


def _literal(cursor: RecursiveCursor, kind: TokenType) -> exp.Expression:
    token = cursor.token
    if token.token_type is not kind:
        raise cursor.unexpected(
            "expected a name in single quotes" if kind is TokenType.STRING else "expected a number"
        )
    return mark(exp.Literal(this=cursor.advance().text, is_string=kind is TokenType.STRING), token)
