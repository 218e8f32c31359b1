"""Flink SQL as a dialect of sqlglot, and what a parsed expression consists of.

sqlglot gives the tree, its walkers and its writer; the grammar is in `parser.grammar.queries` and
the files below it, since that of sqlglot accepts much that Flink refuses, groups operators in
another way and turns calls of known functions into nodes of its own meaning.

These nodes can occur in a scalar expression, and no others but those of `parser.nodes`. No string
in a tree holds the text of more than one token: two words that mean one thing are joined by an
underscore.

| text | node |
|---|---|
| a, t.a, d.t.a, c.d.t.a | Column(this=Identifier, table, db, catalog); t may also be a column and a its field |
| longer paths, f(x).a, m[k].a | Dot(this, expression=Identifier) |
| t.* | Column(this=Star, table, …); Star alone in a select list and in COUNT(*) |
| 1, 1.5, 1e3 | Literal(is_string=False), the text as written; a sign is a Neg or `nodes.Plus` around it |
| 'a', U&'a', E'a' | Literal(is_string=True), unescaped; N'a' is National(this=Literal), _UTF8'a' Introducer(Var, Literal) |
| X'0A' | HexString, upper case |
| TRUE, FALSE; NULL, UNKNOWN | Boolean(this=bool); Null, Null(kind="UNKNOWN") |
| DATE '…', TIME '…', TIMESTAMP '…' | Cast of the canonical text to a type that is NOT NULL: `literals.is_typed_literal` |
| INTERVAL '1' DAY(3), INTERVAL n DAY | Interval(this, unit=Var | Anonymous with precisions | IntervalSpan); of a literal, `literals.interval_value` gives family and size |
| f(a, b) | Anonymous(this="F", expressions=[a, b]); meta["name"] is the spelling where that is not upper case |
| c.d.f(a) | the same, and qualifiers=[Identifier, Identifier] |
| CURRENT_TIMESTAMP, PI, … | Anonymous without arguments |
| COUNT(*), COUNT(DISTINCT a, b) | Anonymous with [Star], with [Distinct(expressions=[a, b])] |
| f(…) FILTER (WHERE c) | Filter(this=Anonymous, expression=Where(this=c)) |
| f(…) IGNORE NULLS, RESPECT NULLS | IgnoreNulls(this=Anonymous), RespectNulls; a Filter is around it |
| f(…) WITHIN GROUP (ORDER BY a) | WithinGroup(this=Anonymous, expression=Order), or Distinct of WITHIN DISTINCT |
| f(…) OVER (…), OVER w | Window(this=one of the above, partition_by, order, spec, partial); Window(this, alias=Identifier) |
| f(x => a), f(DEFAULT) | Kwarg(this=Var as written, expression=a); Var("DEFAULT") |
| f(TABLE t PARTITION BY a), DESCRIPTOR(ts) | Table(partition=Partition, order=Order); Anonymous("DESCRIPTOR", [Column]) |
| TRIM(LEADING c FROM x) | Anonymous("TRIM", [Var("LEADING"), c, x]); TRIM(c FROM x) is BOTH; TRIM(x) is [x] |
| JSON_VALUE(x, p RETURNING t NULL ON EMPTY) | Anonymous, each clause a Kwarg: RETURNING, ON_EMPTY, ON_ERROR, WRAPPER, ON_NULL, …; two words of a value are one Var, as EMPTY_ARRAY |
| EXTRACT(DAY FROM x) | Anonymous("EXTRACT", [Var("DAY"), x]) |
| TIMESTAMPADD(DAY, n, x), TIMESTAMPDIFF | the unit is a Var |
| CEIL(x TO DAY), FLOOR(x TO DAY) | Anonymous("CEIL", [x, Var("DAY")]) |
| POSITION(x IN y), SUBSTRING(x FROM n FOR m), OVERLAY(x PLACING y FROM n FOR m) | Anonymous, arguments in order |
| ARRAY[a], MAP[k, v], ROW(a, b) | Anonymous("ARRAY" / "MAP" / "ROW", …) |
| (a, b) | Tuple; (a) is Paren |
| a[i] | Bracket(this=a, expressions=[i]), the index as written |
| a + b, -, *, /, %, a || b | Add, Sub, Mul, Div, Mod, DPipe; -a is Neg |
| a = b, <>, <, <=, >, >= | EQ, NEQ, LT, LTE, GT, GTE |
| a = ANY (…), SOME, ALL | EQ(this=a, expression=Any | All of a query or a Tuple) |
| AND, OR, NOT | And, Or (binary, deep on the left: flatten them by a loop), Not |
| a IS NULL, IS TRUE, IS FALSE, IS UNKNOWN | Is(this=a, expression=Null | Boolean | Null); IS NOT is Not around it; IS JSON SCALAR has Var("JSON_SCALAR"), IS A SET Var("A_SET"), IS EMPTY Var("EMPTY") |
| a IS [NOT] DISTINCT FROM b | NullSafeNEQ, NullSafeEQ |
| a LIKE b, a SIMILAR TO b | Like, SimilarTo; with ESCAPE c, Escape(this=Like, expression=c); NOT is Not around it |
| a BETWEEN b AND c | Between(this, low, high, symmetric=True or absent) |
| a IN (b, c), a IN (SELECT …) | In(this, expressions), In(this, query=Subquery) |
| CASE, CAST, TRY_CAST | Case(this, ifs=[If(this, true)], default), Cast(this, to), TryCast; `datatypes.type_of(to)` |
| (SELECT …), EXISTS (SELECT …) | Subquery, Exists(this=query) |

And these in a query:

| text | node |
|---|---|
| SELECT … | Select(expressions, kind="STREAM", distinct, hint, from_, joins, where, group, having, windows, qualify) |
| WITH [RECURSIVE] …, ORDER BY …, LIMIT, OFFSET, FETCH | arguments with_, order, limit, offset of the query's node |
| UNION [ALL], EXCEPT, INTERSECT | Union, Except, Intersect (this, expression, distinct=bool) |
| VALUES (a, b), (c, d) | Values(expressions=[Tuple]) |
| (query) | Subquery |
| x AS y | Alias(this=x, alias=Identifier) |
| FROM t AS u (a, b) | From(this=Table(this, db, catalog, alias=TableAlias(this, columns))) |
| t /*+ OPTIONS(…) */, SELECT /*+ … */ | hints=[Hint], hint=Hint(expressions=[Anonymous]); options are EQs of Literals |
| FOR SYSTEM_TIME AS OF x | Table(version=Version(this="SYSTEM_TIME", expression=x)) |
| what follows a relation | match=`MatchRecognize`, pivots=[`nodes.Pivot`, `nodes.Unpivot`], sample=`nodes.Sample`, extend=[`nodes.Extension`] |
| (SELECT …) AS t, (VALUES …) AS t | Subquery(this, alias) |
| TABLE(TUMBLE(…)) AS t, TUMBLE(…) AS t | TableFromRows(this=Anonymous, alias) |
| LATERAL TABLE(f(x)) AS t, LATERAL (SELECT …) | Lateral(this=Anonymous | Subquery, alias) |
| UNNEST(a) WITH ORDINALITY AS t | Unnest(expressions, offset=True, alias) |
| JOIN | Join(this, side=LEFT | RIGHT | FULL, kind=INNER | CROSS, method=NATURAL, on, using); a comma has none |
| GROUP BY a, GROUPING SETS (…), CUBE (…) | Group(expressions=[…, GroupingSets, Cube, Rollup, Tuple], distinct) |
| ORDER BY a DESC NULLS LAST | Order(expressions=[Ordered(this, desc, nulls_first)]) |

All names, literals, calls and query clauses have `line`, `col`, `start` and `end` in `meta`;
`position_of` reads them.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from sqlglot import exp, tokens
from sqlglot import parser as sqlglot_parser
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.generator import Generator as SqlglotGenerator
from sqlglot.tokenizer_core import Token as SqlglotToken

from parser.errors import Position
from parser.grammar.lexer import tokenize
from parser.grammar.queries import QueryParser
from parser.writer.statements import write_tree

if tokens.SQLGLOTC_INSTALLED:
    raise ImportError(
        "the compiled form of sqlglot (sqlglotc) is installed, and its classes cannot be extended: "
        "run `pip uninstall sqlglotc`, then `pip install --force-reinstall sqlglot`"
    )


def position_of(node: exp.Expression) -> Position | None:
    """Returns the position of `node` in its script.

    A node without one has that of the first marked node below it; None if there is none."""
    pending: list[Any] = [node]
    while pending:
        current = pending.pop()
        if "line" in current.meta:
            meta = current.meta
            return Position(meta["line"], meta["col"], max(1, meta["end"] - meta["start"] + 1))
        pending += reversed(list(current.iter_expressions()))
    return None


class Flink(Dialect):
    """The dialect behind sqlglot's own tools.

    `sqlglot.parse_one(text, dialect=Flink)` reads a query or an expression by our grammar, and
    `tree.sql(dialect=Flink)` writes one that reads back as the same tree."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    NULL_ORDERING = "nulls_are_small"
    TYPED_DIVISION = True

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("X'", "'")]

        def tokenize(self, sql: str) -> list[SqlglotToken]:
            return [*tokenize(sql)]

    class Parser(sqlglot_parser.Parser):
        def parse(self, raw_tokens: list[SqlglotToken], sql: str) -> list[exp.Expr | None]:
            cursor = QueryParser(tokenize(sql), sql)
            tree = cursor.query() if cursor.at_query() else cursor.expression()
            cursor.end()
            return [tree]

        def parse_into(
            self,
            expression_types: exp.IntoType,
            raw_tokens: list[SqlglotToken],
            sql: str | None = None,
        ) -> list[exp.Expr | None]:
            return self.parse(raw_tokens, sql or "")

    class Generator(SqlglotGenerator):
        """Writes by `parser.writer.statements`."""

        def generate(self, expression: exp.Expr, copy: bool = True) -> str:
            return write_tree(cast(exp.Expression, expression))
