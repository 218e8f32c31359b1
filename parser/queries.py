"""Queries: WITH, SELECT, VALUES, set operations, ORDER BY and LIMIT."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.cursor import mark
from parser.lexer import Token
from parser.relations import Relations

_SET_OPERATIONS: dict[str, type[exp.SetOperation]] = {
    "UNION": exp.Union,
    "EXCEPT": exp.Except,
    "MINUS": exp.Except,
    "INTERSECT": exp.Intersect,
}
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY")
_GROUPINGS: dict[str, type[exp.Expression]] = {
    "GROUPING": exp.GroupingSets,
    "CUBE": exp.Cube,
    "ROLLUP": exp.Rollup,
}


class Queries(Relations):
    """Parses queries. A `WITH`, `ORDER BY`, `LIMIT`, `OFFSET` or `FETCH` is an argument of the node that it stands at."""

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
        if self.at("RECURSIVE"):
            raise self.unsupported("WITH RECURSIVE", "Flink SQL has no recursive queries either: unroll it")
        return mark(exp.With(expressions=self.list_of(self._common_table)), first)

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

    def _set_operation(self) -> exp.Expression:
        """UNION and EXCEPT group from the left; INTERSECT binds more tightly."""
        left = self._intersection()
        while self.token.word in ("UNION", "EXCEPT", "MINUS"):
            operator = self.advance()
            left = self._combined(operator, left, self._distinct())
        return left

    def _intersection(self) -> exp.Expression:
        left = self._term()
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
            case "VALUES":
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
        first = self.expect("VALUES")
        rows = self.list_of(self._row)
        return mark(exp.Values(expressions=rows), first)

    def _row(self) -> exp.Expression:
        """(a, b), ROW(a, b), or one value without parentheses: all are a Tuple."""
        first = self.token
        if self.at("ROW", "("):
            self.advance()
        value = self.expression()
        if isinstance(value, exp.Tuple):
            return value
        operand = value.this if isinstance(value, exp.Paren) else value
        return mark(exp.Tuple(expressions=[operand]), first, self.previous)

    def _select(self) -> exp.Select:
        first = self.advance()
        hint = self.hint()
        if self.at("STREAM"):
            raise self.unsupported("SELECT STREAM", "all queries over streams are continuous: leave STREAM out")
        distinct = self.take_any("ALL", "DISTINCT") == "DISTINCT"
        select = exp.Select(
            expressions=self.list_of(self._item), hint=hint, distinct=exp.Distinct() if distinct else None
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
            select.set("windows", self.list_of(self._named_window))
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
            raise self.unexpected("expected the name of a column", f"write it as `{self.token.text}`")
        if not named and not self.at_alias():
            return value
        return mark(exp.Alias(this=value, alias=self.identifier("the name of a column")), token)

    def _group(self) -> exp.Group:
        first = self.expect("GROUP", "BY")
        self.take_any("ALL", "DISTINCT")
        return mark(exp.Group(expressions=self.list_of(self._grouping)), first)

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

    def _named_window(self) -> exp.Window:
        name = self.identifier("the name of a window")
        self.expect("AS")
        window = self.window_specification()
        window.set("this", name)
        return window

    def window_specification(self) -> exp.Window:
        """([name] [PARTITION BY …] [ORDER BY …] [ROWS | RANGE …])"""
        first = self.expect("(")
        base = self.identifier("a window") if self.at_alias() else None
        keys = self.list_of(self.expression) if self.take("PARTITION", "BY") else None
        order = self.order() if self.at("ORDER", "BY") else None
        spec = self._frame() if self.token.word in ("ROWS", "RANGE") else None
        self.expect(")")
        return mark(exp.Window(alias=base, partition_by=keys, order=order, spec=spec, over="OVER"), first)

    def _frame(self) -> exp.WindowSpec:
        first = self.advance()
        if self.take("BETWEEN"):
            start, start_side = self._bound()
            self.expect("AND")
            end, end_side = self._bound()
        else:
            (start, start_side), (end, end_side) = self._bound(), ("CURRENT ROW", None)
        node = exp.WindowSpec(kind=first.word, start=start, start_side=start_side, end=end, end_side=end_side)
        return mark(node, first)

    def _bound(self) -> tuple[exp.Expression | str, str | None]:
        """The bound of a frame, and whether it is PRECEDING or FOLLOWING (None for the current row)."""
        if self.take("CURRENT", "ROW"):
            return "CURRENT ROW", None
        value: exp.Expression | str = "UNBOUNDED" if self.take("UNBOUNDED") else self.expression()
        return value, self.one_of("PRECEDING", "FOLLOWING")

    def order(self) -> exp.Order:
        first = self.expect("ORDER", "BY")
        return mark(exp.Order(expressions=self.list_of(self._ordered)), first)

    def _ordered(self) -> exp.Ordered:
        """Without NULLS FIRST or LAST, NULL is the smallest value, as in Flink."""
        value = self.expression()
        descending = self.take_any("ASC", "DESC") == "DESC"
        nulls_first = not descending
        if self.take("NULLS"):
            nulls_first = self.take("FIRST")
            if not nulls_first:
                self.expect("LAST")
        return exp.Ordered(this=value, desc=descending, nulls_first=nulls_first)

    def _order_and_limit(self, query: exp.Expression) -> None:
        if self.at("ORDER", "BY"):
            query.set("order", self.order())
        while self.token.word in ("LIMIT", "OFFSET", "FETCH"):
            token = self.advance()
            key = "offset" if token.word == "OFFSET" else "limit"
            if query.args.get(key):
                raise self.unexpected(f"the query has its {token.word} already")
            query.set(key, self._bounded(token))

    def _bounded(self, token: Token) -> exp.Expression | None:
        """LIMIT n | LIMIT ALL | OFFSET n [ROWS] | FETCH NEXT n ROWS ONLY, the last as a Limit, too."""
        if token.word == "FETCH":
            self.one_of("FIRST", "NEXT")
        if token.word == "LIMIT" and self.take("ALL"):
            return None
        count = self.token
        self.integer("a number of rows")
        value = mark(exp.Literal(this=count.text, is_string=False), count)
        if token.word == "LIMIT":
            return mark(exp.Limit(expression=value), token)
        rows = self.take_any("ROW", "ROWS")
        if token.word == "OFFSET":
            return mark(exp.Offset(expression=value), token)
        if rows is None:
            raise self.unexpected("expected ROWS ONLY")
        self.expect("ONLY")
        return mark(exp.Limit(expression=value), token)
