"""Scalar expressions, with the precedence of Flink's grammar. `parser.dialect` lists the nodes that can come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.calls import CALLS, call
from parser.cursor import MAX_DEPTH, Cursor, Node, identifier, mark
from parser.datatypes import cast_target
from parser.lexer import Token
from parser.literals import UNITS, difference, interval, typed_literal
from parser.reserved import NILADIC, STRUCTURAL

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
_NOT, _IS, _COMPARISON, _RANGE, _SIGN = 26, 28, 30, 32, 80
_AFTER_NOT = ("BETWEEN", "IN", "LIKE", "SIMILAR")
_POSTFIX = {"IS": _IS, "NOT": _RANGE, **dict.fromkeys(_AFTER_NOT, _RANGE)}
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Expressions(Cursor):
    """Parses scalar expressions. What belongs to queries comes from a class below."""

    def query(self) -> exp.Expression:
        raise NotImplementedError

    def window_specification(self) -> exp.Window:
        raise NotImplementedError

    def expression(self, minimum: int = 0) -> exp.Expression:
        """An expression of operators that bind at least as tightly as `minimum`."""
        depth = self.depth
        self.deeper()
        left = self._operand()
        while True:
            word = self.token.word
            binary = _BINARY.get(word)
            if binary is not None:
                if binary[0] < minimum:
                    break
                left = self._binary(left, *binary)
            elif (binds := _POSTFIX.get(word)) is not None and binds >= minimum:
                left = self._postfix(left)
            else:
                break
        self.depth = depth
        if self.token.word == "!=":
            raise self.unexpected("not-equal is written <>", "write <>")
        return left

    def _binary(self, left: exp.Expression, binds: int, node: _Binary) -> exp.Expression:
        operator = self.advance()
        if operator.word in _COMPARISONS and self.token.word in ("ANY", "SOME", "ALL"):
            return node(this=left, expression=self._quantified())
        return node(this=left, expression=self.expression(binds + 1))

    def _quantified(self) -> exp.Expression:
        token = self.advance()
        kind = exp.All if token.word == "ALL" else exp.Any
        self.expect("(")
        this = self.query() if self.at_query() else exp.Tuple(expressions=self.list_of(self.expression))
        self.expect(")")
        return mark(kind(this=this), token)

    def _postfix(self, left: exp.Expression) -> exp.Expression:
        if self.at("IS"):
            return self._is(left)
        negated = self.take("NOT")
        if negated and self.token.word not in _AFTER_NOT:
            raise self.unexpected("expected " + ", ".join(_AFTER_NOT))
        token = self.advance()
        match token.word:
            case "BETWEEN":
                found: exp.Expression = self._between(left)
            case "IN":
                found = self._in(left)
            case "LIKE":
                found = self._escape(exp.Like(this=left, expression=self.expression(_RANGE)))
            case _:
                self.expect("TO")
                found = self._escape(exp.SimilarTo(this=left, expression=self.expression(_RANGE)))
        return exp.Not(this=found) if negated else found

    def _escape(self, like: exp.Expression) -> exp.Expression:
        if not self.take("ESCAPE"):
            return like
        return exp.Escape(this=like, expression=self.expression(_RANGE))

    def _between(self, left: exp.Expression) -> exp.Expression:
        symmetric = self.take_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
        low = self.expression(_NOT)
        self.expect("AND")
        high = self.expression(_RANGE + 1)
        return exp.Between(this=left, low=low, high=high, symmetric=symmetric or None)

    def _in(self, left: exp.Expression) -> exp.Expression:
        first = self.expect("(")
        if self.at_query():
            query = exp.Subquery(this=self.query())
            self.expect(")")
            return exp.In(this=left, query=mark(query, first, self.previous))
        operands = self.list_of(self.expression)
        self.expect(")")
        return exp.In(this=left, expressions=operands)

    def _is(self, left: exp.Expression) -> exp.Expression:
        self.advance()
        negated = self.take("NOT")
        if self.take("DISTINCT", "FROM"):
            right = self.expression(_COMPARISON + 1)
            distinct = exp.NullSafeNEQ if not negated else exp.NullSafeEQ
            return distinct(this=left, expression=right)
        token = self.token
        if token.word == "JSON":
            self.advance()
            kind = exp.Literal(this=self.take_any("VALUE", "SCALAR", "ARRAY", "OBJECT") or "VALUE", is_string=True)
            shaped = mark(exp.Anonymous(this="IS JSON", expressions=[left, kind]), token)
            return exp.Not(this=shaped) if negated else shaped
        if token.word not in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            raise self.unexpected("expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        self.advance()
        right = mark(exp.Boolean(this=token.word == "TRUE"), token)
        if token.word in ("NULL", "UNKNOWN"):
            right = mark(exp.Null(), token)
        found = exp.Is(this=left, expression=right)
        return exp.Not(this=found) if negated else found

    def _operand(self) -> exp.Expression:
        token = self.token
        kind = token.token_type
        if kind is TokenType.IDENTIFIER:
            return self._suffixes(self._column())
        if kind is TokenType.VAR or token.word:
            start = _STARTS.get(token.word)
            return start(self) if start else self._suffixes(self._named())
        if kind is TokenType.STRING:
            return self._string()
        if kind is TokenType.NUMBER:
            self.advance()
            return mark(exp.Literal(this=token.text, is_string=False), token)
        if kind is TokenType.HEX_STRING:
            return self._bytes()
        raise self.unexpected("expected an expression")

    def _string(self) -> exp.Expression:
        """Strings that are separated by a line break are one string."""
        first = self.advance()
        text = first.text
        while self.token.token_type is TokenType.STRING:
            if self.token.line == self.previous.line:
                raise self.unexpected("two strings on one line do not join", "put || between them")
            text += self.advance().text
        return mark(exp.Literal(this=text, is_string=True), first, self.previous)

    def _bytes(self) -> exp.Expression:
        token = self.token
        if len(token.text) % 2 or not _HEXADECIMAL.issuperset(token.text):
            raise self.unexpected("a binary string has an even number of hexadecimal digits")
        self.advance()
        return mark(exp.HexString(this=token.text.upper()), token)

    def _named(self) -> exp.Expression:
        """What begins with a word: a function call, a function without parentheses, a column."""
        token = self.token
        if token.token_type is not TokenType.VAR:
            raise self.unexpected("expected an expression")
        if self.peek().word == "(" and token.word not in STRUCTURAL:
            special = CALLS.get(token.word)
            return special(self) if special else call(self, self.advance())
        if token.word in NILADIC and self.peek().word != ".":
            self.advance()
            return mark(exp.Anonymous(this=token.word, expressions=[]), token)
        if token.word in STRUCTURAL:
            raise self.unexpected("expected an expression")
        return self._column()

    def _column(self) -> exp.Expression:
        """A path of names, `t.*`, or the call of a function whose name has a catalog or is in backticks."""
        first = self.token
        names = [self.name("a name")]
        while self.token.word == ".":
            self.advance()
            if self.token.word == "*":
                star = mark(exp.Star(), self.advance())
                return mark(_path([identifier(n) for n in names], star), first, self.previous)
            names.append(self.name("a name"))
        if self.token.word == "(":
            return _qualified(names[:-1], call(self, names[-1]))
        parts = [identifier(n) for n in names]
        return mark(_path(parts[:-1], parts[-1]), first, self.previous)

    def _suffixes(self, value: exp.Expression) -> exp.Expression:
        """[index] and .field after a value."""
        while self.token.word in ("[", "."):
            first = self.advance()
            if first.word == "[":
                value = mark(exp.Bracket(this=value, expressions=[self.expression()]), first)
                self.expect("]")
            elif self.token.word == "*":
                value = mark(exp.Dot(this=value, expression=mark(exp.Star(), self.advance())), first)
            else:
                value = mark(exp.Dot(this=value, expression=self.identifier("the name of a field")), first)
        return value

    def at_query(self) -> bool:
        """Whether a query begins here, perhaps in parentheses of its own."""
        ahead = 0
        while self.peek(ahead).word == "(" and ahead <= MAX_DEPTH:
            ahead += 1
        return self.peek(ahead).word in ("SELECT", "WITH", "VALUES") or (
            self.peek(ahead).word == "TABLE" and self.peek(ahead + 1).word != "("
        )

    def parenthesis(self) -> exp.Expression:
        """A scalar query, a row or an expression."""
        first = self.advance()
        if self.at_query() and not self.at("("):
            node: exp.Expression = exp.Subquery(this=self.query())
        else:
            operands = self.list_of(self.expression)
            node = exp.Paren(this=operands[0]) if len(operands) == 1 else exp.Tuple(expressions=operands)
        self.expect(")")
        node = mark(node, first, self.previous)
        if isinstance(node, exp.Paren) and isinstance(node.this, exp.Sub) and self.token.word in UNITS:
            return difference(self, node.this)
        return self._suffixes(node)

    def negation(self) -> exp.Expression:
        token = self.advance()
        return mark(exp.Not(this=self.expression(_NOT)), token)

    def sign(self) -> exp.Expression:
        """A minus is a node, a plus a pair of parentheses: it changes nothing but that a column loses its name."""
        token = self.advance()
        value = self.expression(_SIGN)
        node = exp.Neg(this=value) if token.word == "-" else exp.Paren(this=value)
        node.meta["sign"] = token.word
        return mark(node, token)

    def case(self) -> exp.Expression:
        first = self.advance()
        subject = None if self.at("WHEN") else self.expression()
        branches = []
        while self.at("WHEN"):
            branches += self._branches()
        if not branches:
            raise self.unexpected("expected WHEN")
        default = self.expression() if self.take("ELSE") else None
        self.expect("END")
        return mark(exp.Case(this=subject, ifs=branches, default=default), first, self.previous)

    def _branches(self) -> list[exp.Expression]:
        """WHEN a, b THEN c is two branches."""
        token = self.advance()
        conditions = self.list_of(self.expression)
        self.expect("THEN")
        result = self.expression()
        results = [result, *(result.copy() for _ in conditions[1:])]
        return [mark(exp.If(this=c, true=r), token) for c, r in zip(conditions, results, strict=True)]

    def cast(self) -> exp.Expression:
        first = self.advance()
        self.expect("(")
        value = self.expression()
        self.expect("AS")
        target = cast_target(self)
        self.expect(")")
        kind = exp.TryCast if first.word == "TRY_CAST" else exp.Cast
        return self._suffixes(mark(kind(this=value, to=target), first, self.previous))

    def exists(self) -> exp.Expression:
        first = self.advance()
        self.expect("(")
        query = self.query()
        self.expect(")")
        return mark(exp.Exists(this=query), first, self.previous)

    def collection(self) -> exp.Expression:
        """ARRAY[…] and MAP[…] are calls of functions with these names; so are ARRAY(…) and MAP(…)."""
        name = self.token
        if self.peek().word != "[":
            return self._suffixes(self._named())
        self.advance()
        self.advance()
        items = [] if self.at("]") else self.list_of(self.expression)
        self.expect("]")
        return self._suffixes(mark(exp.Anonymous(this=name.word, expressions=items), name))

    def temporal(self) -> exp.Expression:
        """DATE '…' is a literal, DATE(…) a call, and anything else an error: the words are reserved."""
        follows = self.peek().token_type
        return typed_literal(self) if follows is TokenType.STRING else self._suffixes(self._named())

    def constant(self) -> exp.Expression:
        token = self.advance()
        if token.word in ("NULL", "UNKNOWN"):
            node = mark(exp.Null(), token)
            node.meta["unknown"] = token.word == "UNKNOWN"
            return node
        return mark(exp.Boolean(this=token.word == "TRUE"), token)


_STARTS: dict[str, Callable[[Expressions], exp.Expression]] = {
    "(": Expressions.parenthesis,
    "NOT": Expressions.negation,
    "-": Expressions.sign,
    "+": Expressions.sign,
    "CASE": Expressions.case,
    "CAST": Expressions.cast,
    "TRY_CAST": Expressions.cast,
    "EXISTS": Expressions.exists,
    "INTERVAL": interval,
    "ARRAY": Expressions.collection,
    "MAP": Expressions.collection,
    "DATE": Expressions.temporal,
    "TIME": Expressions.temporal,
    "TIMESTAMP": Expressions.temporal,
    **dict.fromkeys(("NULL", "UNKNOWN", "TRUE", "FALSE"), Expressions.constant),
}


def _path(qualifiers: list[exp.Identifier], last: Node) -> exp.Expression:
    """Up to four parts are a Column (catalog.db.table.this); longer ones are Dots over the Column of the first four."""
    if len(qualifiers) <= 3:
        keys = ("table", "db", "catalog")
        return exp.Column(this=last, **dict(zip(keys, reversed(qualifiers), strict=False)))
    node = _path(qualifiers[:3], qualifiers[3])
    for part in (*qualifiers[4:], last):
        node = exp.Dot(this=node, expression=part)
    return node


def _qualified(qualifiers: list[Token], function: exp.Expression) -> exp.Expression:
    """catalog.database.f(x): the qualifiers are in the call's `meta`."""
    if qualifiers:
        function.meta["qualifiers"] = tuple(q.text for q in qualifiers)
    return function
