"""The FROM clause: tables, joins, table functions, subqueries."""

from __future__ import annotations

from sqlglot import exp

from parser.errors import ParseError
from parser.grammar.calls import call, qualified, table_name
from parser.grammar.cursor import mark
from parser.grammar.datatypes import begins_type, cast_target
from parser.grammar.hints import hint
from parser.grammar.lexer import Token
from parser.grammar.patterns import match_recognize
from parser.grammar.pivots import pivot, sample, unpivot
from parser.grammar.reserved import RESERVED
from parser.grammar.windows import WindowParser
from parser.nodes import Extension

# Words that are not reserved and stand behind a value, so that they begin no type.
_AFTER_OPERAND = ("FORMAT", "IMMEDIATELY", "RESPECT", "IGNORE")


class RelationParser(WindowParser):
    """Parses the FROM clause."""

    def values(self) -> exp.Values:
        raise NotImplementedError

    def table_name(self) -> exp.Table:
        return table_name(self)

    def hint(self) -> exp.Hint | None:
        return hint(self)

    def sources(self) -> tuple[exp.Expression, list[exp.Join]]:
        """The first relation after FROM, and all that are joined to it, in order."""
        source = self.relation()
        joins: list[exp.Join] = []
        while (join := self._join()) is not None:
            joins.append(join)
        return source, joins

    def _join(self) -> exp.Join | None:
        """`kind` is CROSS, INNER or absent (a comma), `side` LEFT, RIGHT or FULL, `method`
        NATURAL."""
        first = self.token
        if self.take(","):
            return mark(exp.Join(this=self.relation()), first)
        natural = self.take("NATURAL")
        side = self.take_any("LEFT", "RIGHT", "FULL")
        kind = self.take_any("OUTER") if side else self.take_any("INNER", "CROSS")
        if not self.at("JOIN"):
            if natural or side or kind:
                raise self.unexpected("expected JOIN")
            return None
        self.advance()
        join = exp.Join(
            this=self.relation(),
            side=side,
            kind=kind if kind == "CROSS" else None if side else "INNER",
            method="NATURAL" if natural else None,
        )
        self._condition(join, kind != "CROSS" and not natural)
        return mark(join, first)

    def _condition(self, join: exp.Join, needed: bool) -> None:
        if self.take("ON"):
            join.set("on", self.expression())
        elif self.take("USING"):
            join.set("using", self.wrapped(lambda: self.identifier("a column")))
        elif needed:
            raise self.unexpected("expected ON or USING")

    def relation(self) -> exp.Expression:
        """Parses one relation and its suffixes.

        They stand in one order only: MATCH_RECOGNIZE, PIVOT, UNPIVOT, the alias, TABLESAMPLE."""
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
        self._name_before_match()
        if self.token.word == "MATCH_RECOGNIZE":
            node.set("match", match_recognize(self))
        self._pivots(node)
        self._alias(node)
        if self.token.word == "TABLESAMPLE":
            node.set("sample", sample(self))
        return mark(node, first, self.previous)

    def _name_before_match(self) -> None:
        """A name of the relation whose rows are matched; nothing can be said by it."""
        ahead = 1 if self.token.word == "AS" else 0
        if self.peek(ahead).is_name and self.peek(ahead + 1).word == "MATCH_RECOGNIZE":
            self.take("AS")
            self.identifier("the name of a relation")

    def _pivots(self, node: exp.Expression) -> None:
        pivots: list[exp.Expression] = [pivot(self)] if self.token.word == "PIVOT" else []
        if self.token.word == "UNPIVOT":
            pivots.append(unpivot(self))
        if pivots:
            node.set("pivots", pivots)

    def _alias(self, node: exp.Expression) -> None:
        named = self.take("AS")
        if not named and not self.at_alias():
            return
        token = self.token
        name = self.identifier("the name of a relation")
        columns = self.wrapped(lambda: self.identifier("a column")) if self.at("(") else None
        node.set("alias", mark(exp.TableAlias(this=name, columns=columns), token))

    def _parenthesised(self) -> exp.Expression:
        """A query, or a join in parentheses: the latter is a Subquery whose `this` is a relation
        with `joins`."""
        depth = self.depth
        self.deeper()
        first = self.token
        queried = self.at_query()
        self.advance()
        if queried:
            inner = self.query()
            if self.token.word != ")" and type(inner) is exp.Subquery:
                self._pivots(inner)
                self._alias(inner)
                self._joined(inner, first)
        else:
            inner = self.relation()
            self._joined(inner, first)
        self.expect(")")
        self.depth = depth
        return mark(exp.Subquery(this=inner), first, self.previous)

    def _joined(self, source: exp.Expression, parenthesis: Token) -> None:
        """Joins to a relation that stands first in parentheses: (a JOIN b …), ((SELECT 1) AS a JOIN
        b …)."""
        joins: list[exp.Join] = []
        while not self.at(",") and (join := self._join()) is not None:
            joins.append(join)
        if not joins and not (type(source) is exp.Subquery and source.args.get("alias") is None):
            message = "a relation in parentheses is a query or a join"
            raise ParseError(
                message, hint="leave the parentheses out", position=parenthesis.position
            )
        source.set("joins", joins or source.args.get("joins"))

    def _lateral(self) -> exp.Expression:
        self.advance()
        if self.at("TABLE", "("):
            return exp.Lateral(this=self._table_function().this)
        if self.at("("):
            return exp.Lateral(this=self._parenthesised())
        if self.at("UNNEST"):
            return self._unnest()
        return exp.Lateral(this=self.routine())

    def _table_function(self) -> exp.Expression:
        """TABLE(function(…)): the same as the function alone."""
        self.expect("TABLE", "(")
        self.take("SPECIFIC")
        function = self.routine()
        self.expect(")")
        return exp.TableFromRows(this=function)

    def routine(self) -> exp.Expression:
        names = [self.name("the name of a function")]
        while self.take("."):
            names.append(self.name("a name"))
        return qualified(names[:-1], call(self, names[-1]))

    def _unnest(self) -> exp.Expression:
        self.advance()
        if self.at("(", "SELECT") or self.at("(", "WITH"):
            first = self.advance()
            values: list[exp.Expression] = [mark(exp.Subquery(this=self.query()), first)]
            self.expect(")")
        else:
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
        if (
            self.peek(ahead).is_name
            and self.peek(ahead + 1).word == "("
            and not self.declares(ahead + 1)
        ):
            return exp.TableFromRows(this=self.routine())
        table = self.target()
        if self.at("FOR"):
            table.set("version", self._system_time())
        return table

    def target(self) -> exp.Table:
        """A table with its hints and additional columns, as it can also stand in UPDATE and
        DELETE."""
        table = self.table_name()
        options = self.hint()
        if options is not None:
            table.set("hints", [options])
        extend = self.extension()
        if extend:
            table.set("extend", extend)
        return table

    def changed_table(self) -> exp.Table:
        """The table of UPDATE, DELETE or MERGE, perhaps with another name."""
        first = self.token
        table = self.target()
        self._alias(table)
        return mark(table, first, self.previous)

    def extension(self) -> list[Extension]:
        """[EXTEND] (name type, …), empty where there is none."""
        if self.take("EXTEND") or (self.token.word == "(" and self.declares(0)):
            return self.wrapped(self._extension)
        return []

    def declares(self, ahead: int) -> bool:
        """True if (name type, …) begins at the parenthesis so many tokens ahead."""
        first = self.peek(ahead + 1)
        if not first.is_name or first.word in RESERVED:
            return False
        ahead += 2
        while self.peek(ahead).word == ".":
            ahead += 2
        following = self.peek(ahead)
        return (
            following.is_name
            and begins_type(following.word)
            and following.word not in _AFTER_OPERAND
        )

    def _extension(self) -> Extension:
        first = self.token
        parts = [self.identifier("a column")]
        while self.take("."):
            parts.append(self.identifier("a field"))
        path: exp.Expression = exp.Column(this=parts[0])
        for part in parts[1:]:
            path = exp.Dot(this=path, expression=part)
        target = cast_target(self)
        if self.take("NOT", "NULL"):
            target.set("kind", target.args["kind"].with_nullable(False))
        return mark(Extension(this=path, to=target), first, self.previous)

    def _system_time(self) -> exp.Version:
        """FOR SYSTEM_TIME AS OF expression."""
        first = self.token
        self.expect("FOR", "SYSTEM_TIME", "AS", "OF")
        return mark(exp.Version(this="SYSTEM_TIME", expression=self.expression()), first)
