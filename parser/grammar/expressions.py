"""Scalar expressions, with the precedence of Flink's grammar. `parser.dialect` lists the nodes that
can come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar import operands
from parser.grammar.calls import call, qualified
from parser.grammar.cursor import MAX_DEPTH, Node, identifier, mark
from parser.grammar.keyword_calls import CALLS
from parser.grammar.predicates import BINDS, NOT, predicate
from parser.grammar.recursion import RecursiveCursor
from parser.grammar.reserved import NILADIC, STRUCTURAL

_Binary: TypeAlias = "type[exp.Expression]"

# Operator -> (how tightly it binds, node); all of them group from the left.
_BINARY: dict[str, tuple[int, _Binary]] = {
    "OR": (22, exp.Or),
    "AND": (24, exp.And),
    "=": (30, exp.EQ),
    "<>": (30, exp.NEQ),
    "<": (30, exp.LT),
    "<=": (30, exp.LTE),
    ">": (30, exp.GT),
    ">=": (30, exp.GTE),
    "OVERLAPS": (30, exp.Overlaps),
    "+": (40, exp.Add),
    "-": (40, exp.Sub),
    "||": (60, exp.DPipe),
    "*": (60, exp.Mul),
    "/": (60, exp.Div),
    "%": (60, exp.Mod),
}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class ExpressionParser(RecursiveCursor):
    """Parses scalar expressions; the queries inside are parsed by a class below."""

    def expression(self, minimum: int = 0) -> exp.Expression:
        """An expression of operators that bind at least as tightly as `minimum`."""
        # Precedence climbing: an operand, then each operator that binds tightly enough, whose right
        # operand is an expression of tighter ones.
        # Reset at the end: `depth` counts levels, not operators.
        depth = self.depth
        self.deeper()
        left = self._followed(self._operand(), minimum)
        self.depth = depth
        return left

    def rest_of(self, left: exp.Expression) -> exp.Expression:
        """An expression whose first operand, a value in parentheses, has been read."""
        return self._followed(self._suffixes(left), 0)

    def _followed(self, left: exp.Expression, minimum: int) -> exp.Expression:
        while True:
            word = self.token.word
            binary = _BINARY.get(word)
            if binary is not None:
                # The caller's operator binds tighter, and takes what is on the left first.
                if binary[0] < minimum:
                    break
                left = self._binary(left, *binary)
            elif (binds := BINDS.get(word)) is not None and (
                binds >= minimum or word == "MULTISET"
            ):
                operation = predicate(self, left, minimum)
                if operation is None:
                    break
                left = operation
            else:
                break
        if word == "!=":
            raise self.unexpected("not-equal is written <>", "write <>")
        return left

    def _binary(self, left: exp.Expression, binds: int, node: _Binary) -> exp.Expression:
        operator = self.advance()
        if operator.word in _COMPARISONS and self.token.word in ("ANY", "SOME", "ALL"):
            return node(this=left, expression=self._quantified())
        # One more than the operator's own level makes equal ones group from the left.
        return node(this=left, expression=self.expression(binds + 1))

    def _quantified(self) -> exp.Expression:
        token = self.advance()
        kind = exp.All if token.word == "ALL" else exp.Any
        self.expect("(")
        this = (
            self.query()
            if self.at_query()
            else exp.Tuple(expressions=self.list_of(self.expression))
        )
        self.expect(")")
        return mark(kind(this=this), token)

    def _operand(self) -> exp.Expression:
        token = self.token
        kind = token.token_type
        if kind is TokenType.IDENTIFIER:
            return self._suffixes(self.column())
        if kind is TokenType.VAR or token.word:
            start = _STARTS.get(token.word)
            return start(self) if start else self._suffixes(self.named())
        literal = operands.LITERALS.get(kind)
        if literal is None:
            raise self.unexpected("expected an expression")
        return self.with_suffixes(literal(self))

    def named(self) -> exp.Expression:
        """Parses what begins with a word: a function call, a niladic function or a column."""
        token = self.token
        if token.token_type is not TokenType.VAR:
            raise self.unexpected("expected an expression")
        # A structural word before a parenthesis is no function: IN (…), NOT (…).
        if self.peek().word == "(" and token.word not in STRUCTURAL:
            special = CALLS.get(token.word)
            return special(self) if special else call(self, self.advance())
        if token.word in NILADIC and self.peek().word != ".":
            self.advance()
            return mark(exp.Anonymous(this=token.word, expressions=[]), token)
        if token.word in STRUCTURAL:
            raise self.unexpected("expected an expression", self._as_name())
        return self.column()

    def _as_name(self) -> str | None:
        """A hint for a reserved word that stands where only a column makes sense."""
        if self.index and self.previous.word == "CASE":
            return None
        if self.peek().token_type is TokenType.SENTINEL or self.peek().word in _BEHIND_COLUMNS:
            return f"if it is a column, write it as `{self.token.text}`"
        return None

    def column(self) -> exp.Expression:
        """A path of names, `t.*`, or the call of a function whose name has a catalog or is in
        backticks."""
        first = self.token
        names = [self.name("a name")]
        while self.token.word == ".":
            self.advance()
            if self.token.word == "*":
                star = mark(exp.Star(), self.advance())
                return mark(_path([identifier(n) for n in names], star), first, self.previous)
            names.append(self.name("a name"))
        # A path before a parenthesis names a function with its catalog or database.
        if self.token.word == "(":
            return qualified(names[:-1], call(self, names[-1]))
        parts = [identifier(n) for n in names]
        return mark(_path(parts[:-1], parts[-1]), first, self.previous)

    def _suffixes(self, value: exp.Expression) -> exp.Expression:
        """[index], .field and .function(…) after a value."""
        while self.token.word in ("[", "."):
            first = self.advance()
            if first.word == "[":
                value = mark(exp.Bracket(this=value, expressions=[self._index()]), first)
                self.expect("]")
            elif self.token.word == "*":
                value = mark(
                    exp.Dot(this=value, expression=mark(exp.Star(), self.advance())), first
                )
            else:
                name = self.name("the name of a field")
                field = call(self, name) if self.token.word == "(" else identifier(name)
                value = mark(exp.Dot(this=value, expression=field), first)
        return value

    def _index(self) -> exp.Expression:
        """An index or key, or a call such as OFFSET(1), whose name is no other function's."""
        if (
            self.token.word in ("OFFSET", "ORDINAL", "SAFE_OFFSET", "SAFE_ORDINAL")
            and self.peek().word == "("
        ):
            return call(self, self.advance())
        return self.expression()

    def with_suffixes(self, value: exp.Expression) -> exp.Expression:
        return self._suffixes(value) if self.token.word in ("[", ".") else value

    def at_query(self) -> bool:
        """True if a query begins here, perhaps in parentheses of its own."""
        ahead = 0
        # The bound keeps hostile text from quadratic time.
        while self.peek(ahead).word == "(" and ahead <= MAX_DEPTH:
            ahead += 1
        return self.peek(ahead).word in ("SELECT", "WITH", "VALUES") or (
            self.peek(ahead).word == "TABLE" and self.peek(ahead + 1).word != "("
        )

    def parenthesis(self) -> exp.Expression:
        """A scalar query, a row, an expression, or the difference of two times."""
        first = self.advance()
        if self.at_query() and not self.at("("):
            node: exp.Expression = exp.Subquery(this=self.query())
        else:
            values = self.list_of(self.expression)
            node = exp.Paren(this=values[0]) if len(values) == 1 else exp.Tuple(expressions=values)
            # ((SELECT …) UNION …): the parenthesis began a query after all.
            if self.token.word != ")" and type(values[0]) is exp.Subquery and len(values) == 1:
                node = exp.Subquery(this=self.query_from(values[0]))
        self.expect(")")
        mark(node, first, self.previous)
        if self.token.word in operands.UNITS_AFTER and type(node) is exp.Paren:
            node = operands.difference(self, node)
        return self.with_suffixes(node)

    def negation(self) -> exp.Expression:
        token = self.advance()
        return mark(exp.Not(this=self.expression(NOT)), token)


# Words and signs behind a column, and before no clause.
_BEHIND_COLUMNS = frozenset(
    ", ) = < > . + - * / FROM AS IS IN LIKE AND OR THEN WHEN ASC DESC".split()
) | {"<>", "<=", ">="}
_STARTS: dict[str, Callable[[ExpressionParser], exp.Expression]] = {
    "(": ExpressionParser.parenthesis,
    "NOT": ExpressionParser.negation,
    **operands.STARTS,
}


def _path(qualifiers: list[exp.Identifier], last: Node) -> exp.Expression:
    """Up to four parts are a Column (catalog.db.table.this); longer ones are Dots over the Column
    of the first four."""
    if len(qualifiers) <= 3:
        keys = ("table", "db", "catalog")
        return exp.Column(this=last, **dict(zip(keys, reversed(qualifiers), strict=False)))
    node = _path(qualifiers[:3], qualifiers[3])
    for part in (*qualifiers[4:], last):
        node = exp.Dot(this=node, expression=part)
    return node
