"""What stands in FROM: tables, joins, table functions, subqueries."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.calls import call, table_name
from parser.cursor import mark
from parser.expressions import Expressions
from parser.reserved import RESERVED

_REFUSED = {
    "TABLESAMPLE": "filter by a hash of the key, such as MOD(id, 10) = 0",
    "MATCH_RECOGNIZE": "find the pattern with OVER aggregates or joins",
    "PIVOT": "write one aggregate with FILTER (WHERE …) per column",
    "UNPIVOT": "write UNION ALL of one SELECT per column",
    "EXTEND": "declare the columns in CREATE TABLE",
}


class Relations(Expressions):
    """Parses the FROM clause."""

    def values(self) -> exp.Values:
        raise NotImplementedError

    def table_name(self) -> exp.Table:
        return table_name(self)

    def at_alias(self) -> bool:
        """Whether a name without AS follows."""
        return self.token.is_name and self.token.word not in RESERVED

    def hint(self) -> exp.Hint | None:
        if self.token.token_type is not TokenType.HINT:
            return None
        token = self.advance()
        return mark(exp.Hint(expressions=[exp.Var(this=token.text)]), token)

    def sources(self) -> tuple[exp.Expression, list[exp.Join]]:
        """The first relation after FROM, and all that are joined to it, in order."""
        source = self._relation()
        joins: list[exp.Join] = []
        while (join := self._join()) is not None:
            joins.append(join)
        return source, joins

    def _join(self) -> exp.Join | None:
        """`kind` is CROSS, INNER or absent (a comma), `side` LEFT, RIGHT or FULL, `method` NATURAL."""
        first = self.token
        if self.take(","):
            return mark(exp.Join(this=self._relation()), first)
        natural = self.take("NATURAL")
        side = self.take_any("LEFT", "RIGHT", "FULL")
        kind = self.take_any("OUTER") if side else self.take_any("INNER", "CROSS")
        if not self.at("JOIN"):
            if natural or side or kind:
                raise self.unexpected("expected JOIN")
            return None
        self.advance()
        join = exp.Join(
            this=self._relation(),
            side=side,
            kind=kind if kind == "CROSS" else None if side else "INNER",
            method="NATURAL" if natural else None,
        )
        if self.take("ON"):
            join.set("on", self.expression())
        elif self.take("USING"):
            join.set("using", self.wrapped(lambda: self.identifier("a column")))
        elif kind != "CROSS" and not natural:
            raise self.unexpected("expected ON or USING")
        return mark(join, first)

    def _relation(self) -> exp.Expression:
        first = self.token
        match first.word:
            case "(":
                node = self._parenthesised()
            case "LATERAL":
                node = self._lateral()
            case "UNNEST":
                node = self._unnest()
            case "TABLE" if self.peek().word == "(":
                node = self._table_function()
            case _:
                node = self._table()
        if self.token.word in _REFUSED:
            raise self.unsupported(self.token.word, _REFUSED[self.token.word])
        self._alias(node)
        return mark(node, first, self.previous)

    def _alias(self, node: exp.Expression) -> None:
        token = self.token
        named = self.take("AS")
        if not named and not self.at_alias():
            return
        token = self.token
        name = self.identifier("the name of a relation")
        columns = self.wrapped(lambda: self.identifier("a column")) if self.at("(") else None
        node.set("alias", mark(exp.TableAlias(this=name, columns=columns), token))
        if self.token.word in _REFUSED:
            raise self.unsupported(self.token.word, _REFUSED[self.token.word])

    def _parenthesised(self) -> exp.Expression:
        """A query, or a join in parentheses: the latter is a Subquery whose `this` is a Table with `joins`."""
        depth = self.depth
        self.deeper()
        if self.at_query():
            self.advance()
            inner = self.query()
        else:
            self.advance()
            inner, joins = self.sources()
            inner.set("joins", joins or None)
        self.expect(")")
        self.depth = depth
        return exp.Subquery(this=inner)

    def _lateral(self) -> exp.Expression:
        self.advance()
        if self.at("TABLE", "("):
            return exp.Lateral(this=self._table_function().this)
        if self.at("("):
            return exp.Lateral(this=self._parenthesised())
        return exp.Lateral(this=self._function())

    def _table_function(self) -> exp.Expression:
        """TABLE(function(…)): the same as the function alone."""
        self.expect("TABLE", "(")
        function = self._function()
        self.expect(")")
        return exp.TableFromRows(this=function)

    def _function(self) -> exp.Expression:
        names = [self.name("the name of a table function")]
        while self.take("."):
            names.append(self.name("a name"))
        function = call(self, names[-1])
        if names[:-1]:
            function.meta["qualifiers"] = tuple(n.text for n in names[:-1])
        return function

    def _unnest(self) -> exp.Expression:
        self.advance()
        values = self.wrapped(self.expression)
        ordinality = self.take("WITH", "ORDINALITY")
        return exp.Unnest(expressions=values, offset=ordinality or None)

    def _table(self) -> exp.Expression:
        if self.at("VALUES"):
            hint = "put VALUES in parentheses and give it a name: (VALUES (1)) AS t (x)"
            raise self.unexpected("expected a table", hint)
        ahead = 0
        while self.peek(ahead).is_name and self.peek(ahead + 1).word == ".":
            ahead += 2
        if self.peek(ahead).is_name and self.peek(ahead + 1).word == "(":
            return exp.TableFromRows(this=self._function())
        table = self.table_name()
        options = self.hint()
        if options is not None:
            table.set("hints", [options])
        if self.at("FOR"):
            table.set("version", self._system_time())
        return table

    def _system_time(self) -> exp.Version:
        """FOR SYSTEM_TIME AS OF expression."""
        first = self.token
        self.expect("FOR", "SYSTEM_TIME", "AS", "OF")
        return mark(exp.Version(this="TIMESTAMP", kind="AS OF", expression=self.expression()), first)
