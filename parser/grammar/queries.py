"""Queries: WITH, SELECT, VALUES, set operations, ORDER BY and LIMIT."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar.cursor import mark
from parser.grammar.lexer import Token
from parser.grammar.relations import RelationParser

_SET_OPERATIONS: dict[str, type[exp.SetOperation]] = {
    "UNION": exp.Union,
    "EXCEPT": exp.Except,
    "INTERSECT": exp.Intersect,
}
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY")
_GROUPINGS: dict[str, type[exp.Expression]] = {
    "GROUPING": exp.GroupingSets,
    "CUBE": exp.Cube,
    "ROLLUP": exp.Rollup,
}


class QueryParser(RelationParser):
    """Parses queries. A `WITH`, `ORDER BY`, `LIMIT`, `OFFSET` or `FETCH` is an argument of the node
    that it stands at."""

    def query(self) -> exp.Expression:
        depth = self.depth
        self.deeper()
        with_ = self._with() if self.at("WITH") else None
        query = self._set_operation()
        if with_ is not None:
            query.set("with_", with_)
        self._order_and_limit(query)
        self.depth = depth
        return query

    def _with(self) -> exp.With:
        first = self.advance()
        recursive = self.take("RECURSIVE")
        return mark(
            exp.With(expressions=self.list_of(self._common_table), recursive=recursive or None),
            first,
        )

    def _common_table(self) -> exp.CTE:
        first = self.token
        name = self.identifier("the name of a common table")
        columns = self.wrapped(lambda: self.identifier("a column")) if self.at("(") else None
        self.expect("AS")
        self.expect("(")
        query = self.query()
        self.expect(")")
        alias = mark(exp.TableAlias(this=name, columns=columns), first)
        return mark(exp.CTE(this=query, alias=alias), first)

    def query_from(self, left: exp.Expression) -> exp.Expression:
        """A query whose first operand, a query in parentheses, has been read."""
        query = self._set_operation(left)
        self._order_and_limit(query)
        return query

    def _set_operation(self, left: exp.Expression | None = None) -> exp.Expression:
        """UNION and EXCEPT group from the left; INTERSECT binds more tightly."""
        left = self._intersection(left)
        while self.token.word in ("UNION", "EXCEPT", "MINUS"):
            if self.at("MINUS"):
                raise self.unexpected("the difference of two queries is EXCEPT", "write EXCEPT")
            operator = self.advance()
            left = self._combined(operator, left, self._distinct())
        return left

    def _intersection(self, left: exp.Expression | None = None) -> exp.Expression:
        left = left or self._term()
        while self.at("INTERSECT"):
            operator = self.advance()
            distinct = self._distinct()
            node = exp.Intersect(this=left, distinct=distinct, expression=self._term())
            left = mark(node, operator)
        return left

    def _combined(self, operator: Token, left: exp.Expression, distinct: bool) -> exp.Expression:
        kind = _SET_OPERATIONS[operator.word]
        return mark(kind(this=left, distinct=distinct, expression=self._intersection()), operator)

    def _distinct(self) -> bool:
        return self.take_any("ALL", "DISTINCT") != "ALL"

    def _term(self) -> exp.Expression:
        token = self.token
        match token.word:
            case "SELECT":
                return self._select()
            case "VALUES" | "VALUE":
                return self.values()
            case "TABLE":
                self.advance()
                table = exp.From(this=self.table_name())
                return mark(exp.Select(expressions=[mark(exp.Star(), token)], from_=table), token)
            case "(":
                self.advance()
                query = self.query()
                self.expect(")")
                return mark(exp.Subquery(this=query), token, self.previous)
        raise self.unexpected("expected a query: SELECT, WITH, VALUES or TABLE")

    def values(self) -> exp.Values:
        first = self.advance()
        rows = self.list_of(self.row)
        return mark(exp.Values(expressions=rows), first)

    def row(self) -> exp.Expression:
        """(a, b), ROW(a, b), (ROW(a, b)), or one value without parentheses: all are a Tuple."""
        first = self.token
        wrapped = self.at("(", "ROW", "(")
        if wrapped or self.at("ROW", "("):
            self.advance()
        if wrapped:
            self.advance()
        elif not self.at("("):
            return mark(exp.Tuple(expressions=[self.expression()]), first, self.previous)
        row = self._row_in_parentheses()
        if wrapped:
            self.expect(")")
        return mark(row, first, self.previous)

    def _row_in_parentheses(self) -> exp.Tuple:
        """(a, DEFAULT, …); what follows the parenthesis belongs to a row of one value: `(1) +
        2`."""
        first = self.advance()
        query = self._at_bare_query()
        items = [exp.Subquery(this=self.query())] if query else self.list_of(self._value)
        self.expect(")")
        if len(items) > 1:
            return exp.Tuple(expressions=items)
        operand = mark(items[0] if query else exp.Paren(this=items[0]), first, self.previous)
        whole = self.rest_of(operand)
        return exp.Tuple(expressions=[items[0] if whole is operand else whole])

    def _at_bare_query(self) -> bool:
        return self.token.word in ("SELECT", "WITH", "VALUES", "TABLE")

    def _value(self) -> exp.Expression:
        if self.token.word == "DEFAULT":
            return mark(exp.Var(this="DEFAULT"), self.advance())
        return self.expression()

    def _select(self) -> exp.Select:
        first = self.advance()
        hint = self.hint()
        stream = self.take("STREAM")
        distinct = self.take_any("ALL", "DISTINCT") == "DISTINCT"
        select = exp.Select(
            kind="STREAM" if stream else None,
            expressions=self.list_of(self._item),
            hint=hint,
            distinct=exp.Distinct() if distinct else None,
        )
        if self.at("FROM"):
            token = self.advance()
            source, joins = self.sources()
            select.set("from_", mark(exp.From(this=source), token))
            select.set("joins", joins or None)
            self._clauses(select)
        elif self.token.word in _AFTER_FROM:
            raise self.unexpected("expected FROM")
        return mark(select, first)

    def _clauses(self, select: exp.Select) -> None:
        if self.at("WHERE"):
            token = self.advance()
            select.set("where", mark(exp.Where(this=self.expression()), token))
        if self.at("GROUP", "BY"):
            select.set("group", self._group())
        if self.at("HAVING"):
            token = self.advance()
            select.set("having", mark(exp.Having(this=self.expression()), token))
        if self.take("WINDOW"):
            select.set("windows", self.list_of(self.named_window))
        if self.at("QUALIFY"):
            token = self.advance()
            select.set("qualify", mark(exp.Qualify(this=self.expression()), token))

    def _item(self) -> exp.Expression:
        """A select item: `*`, `t.*`, or an expression with or without a name."""
        token = self.token
        if token.word == "*":
            return mark(exp.Star(), self.advance())
        value = self.expression()
        named = self.take("AS")
        if self.token.token_type is TokenType.STRING:
            raise self.unexpected(
                "expected the name of a column", f"write it as `{self.token.text}`"
            )
        if not named and not self.at_alias():
            return value
        return mark(exp.Alias(this=value, alias=self.identifier("the name of a column")), token)

    def _group(self) -> exp.Group:
        first = self.expect("GROUP", "BY")
        distinct = self.take_any("ALL", "DISTINCT") == "DISTINCT"
        return mark(
            exp.Group(expressions=self.list_of(self._grouping), distinct=distinct or None), first
        )

    def _grouping(self) -> exp.Expression:
        """An expression, (), GROUPING SETS (…), CUBE (…) or ROLLUP (…)."""
        token = self.token
        kind = _GROUPINGS.get("GROUPING" if self.at("GROUPING", "SETS") else token.word)
        if kind is not None and not self.at("GROUPING", "("):
            depth = self.depth
            self.deeper()
            self.take("GROUPING")
            self.advance()
            node = mark(kind(expressions=self.wrapped(self._grouping)), token)
            self.depth = depth
            return node
        if self.take("(", ")"):
            return mark(exp.Tuple(expressions=[]), token)
        return self.expression()

    def _order_and_limit(self, query: exp.Expression) -> None:
        if self.at("ORDER", "BY"):
            query.set("order", self.order())
        while self.token.word in ("LIMIT", "OFFSET", "FETCH"):
            if self.at("LIMIT") and query.args.get("offset"):
                raise self.unexpected("LIMIT stands before OFFSET", "write LIMIT … OFFSET …")
            token = self.advance()
            key = "offset" if token.word == "OFFSET" else "limit"
            if query.args.get(key):
                raise self.unexpected(f"the query has its {token.word} already")
            query.set(key, self._bounded(token))

    def _bounded(self, token: Token) -> exp.Expression | None:
        """LIMIT n | LIMIT ALL | OFFSET n [ROWS] | FETCH NEXT n ROWS ONLY, the last as a Limit,
        too."""
        if token.word == "FETCH":
            self.one_of("FIRST", "NEXT")
        if token.word == "LIMIT" and self.take("ALL"):
            return None
        value = self._count()
        if token.word == "LIMIT":
            return mark(exp.Limit(expression=value), token)
        rows = self.take_any("ROW", "ROWS")
        if token.word == "OFFSET":
            return mark(exp.Offset(expression=value), token)
        if rows is None:
            raise self.unexpected("expected ROWS ONLY")
        self.expect("ONLY")
        return mark(exp.Limit(expression=value), token)

    def _count(self) -> exp.Expression:
        """A whole number, or ? for one."""
        token = self.token
        if self.take("?"):
            return mark(exp.Placeholder(), token)
        self.integer("a number of rows")
        return mark(exp.Literal(this=token.text, is_string=False), token)
