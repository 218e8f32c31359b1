"""Scalar expressions as SQL that parses to the same tree. Parentheses are nodes of the tree; none
are added."""

from __future__ import annotations

from sqlglot import exp

from parser import nodes
from parser.grammar.datatypes import type_of
from parser.grammar.literals import is_typed_literal
from parser.types import Root
from parser.writer.clauses import alias, interval, name_part, order, parts, unit
from parser.writer.dispatch import (
    Writer,
    expression,
    listed,
    query,
    register_expressions,
    register_operators,
)
from parser.writer.names import data_type, identifier, quoted

_NOT = 26
# Operator and how tightly it binds, as in `parser.grammar.expressions`.
BINARY: dict[type[exp.Expression], tuple[str, int]] = {
    exp.Or: ("OR", 22),
    exp.And: ("AND", 24),
    exp.EQ: ("=", 30),
    exp.NEQ: ("<>", 30),
    exp.LT: ("<", 30),
    exp.LTE: ("<=", 30),
    exp.GT: (">", 30),
    exp.GTE: (">=", 30),
    exp.Overlaps: ("OVERLAPS", 30),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM", 30),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", 30),
    nodes.MemberOf: ("MEMBER OF", 30),
    nodes.SubmultisetOf: ("SUBMULTISET OF", 30),
    exp.Add: ("+", 40),
    exp.Sub: ("-", 40),
    exp.DPipe: ("||", 60),
    exp.Mul: ("*", 60),
    exp.Div: ("/", 60),
    exp.Mod: ("%", 60),
}
_LIKES: dict[type[exp.Expression], str] = {
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.SimilarTo: "SIMILAR TO",
}
# What NOT can stand inside of, and how tightly that binds.
_NEGATABLE: dict[type[exp.Expression], int] = {
    **dict.fromkeys((*_LIKES, exp.Escape, exp.In, exp.Between), 32),
    nodes.SubmultisetOf: 30,
    exp.Is: 28,
}


def _chain(node: exp.Expression) -> str:
    """Operators that group from the left; the way down to the first operand is a loop."""
    parts: list[str] = []
    while (binary := BINARY.get(type(node))) is not None:
        operator, binds = binary
        parts.append(f"{operator} {_right(node.args['expression'], binds + 1)}")
        node = node.this
    return " ".join([expression(node), *reversed(parts)])


def _right(node: exp.Expression, minimum: int) -> str:
    if not isinstance(node, exp.Any | exp.All):
        return expression(node, minimum)
    inner = listed(node.this.expressions) if type(node.this) is exp.Tuple else query(node.this)
    return f"{'ALL' if isinstance(node, exp.All) else 'ANY'} ({inner})"


def _negated(node: exp.Expression, minimum: int) -> str:
    """NOT inside (`a NOT IN (b)`), where the predicate can stand; before it, NOT can stand
    everywhere."""
    inner = node.this
    if _NEGATABLE.get(type(inner), -1) >= minimum:
        return _predicate(inner, "NOT ")
    return f"NOT {expression(inner, _NOT)}"


def _predicate(node: exp.Expression, negation: str = "") -> str:
    if isinstance(node, exp.Escape):
        return f"{_predicate(node.this, negation)} ESCAPE {expression(node.args['expression'], 32)}"
    left = expression(node.this)
    match node:
        case exp.Is():
            return f"{left} IS {negation}{_state(node.args['expression'])}"
        case exp.In():
            subquery = node.args.get("query")
            return f"{left} {negation}IN " + (
                expression(subquery) if subquery else f"({listed(node.expressions)})"
            )
        case exp.Between():
            symmetric = "SYMMETRIC " if node.args.get("symmetric") else ""
            low, high = expression(node.args["low"], _NOT), expression(node.args["high"], 33)
            return f"{left} {negation}BETWEEN {symmetric}{low} AND {high}"
        case nodes.SubmultisetOf():
            return f"{left} {negation}SUBMULTISET OF {expression(node.args['expression'], 31)}"
    return f"{left} {negation}{_LIKES[type(node)]} {expression(node.args['expression'], 32)}"


def _state(node: exp.Expression) -> str:
    """Writes the operand of IS."""
    if isinstance(node, exp.Var):
        return str(node.name).replace("_", " ")
    return expression(node)


def _literal(node: exp.Expression) -> str:
    return quoted(node.name) if node.args["is_string"] else str(node.name)


def _sign(mark: str) -> Writer:
    def write(node: exp.Expression) -> str:
        inner = expression(node.this, 80)
        return f"{mark} {inner}" if inner.startswith(mark) else mark + inner

    return write


def _case(node: exp.Expression) -> str:
    words = ["CASE"]
    if node.this is not None:
        words.append(expression(node.this))
    words += [
        f"WHEN {expression(b.this)} THEN {expression(b.args['true'])}" for b in node.args["ifs"]
    ]
    if node.args.get("default") is not None:
        words.append(f"ELSE {expression(node.args['default'])}")
    return " ".join([*words, "END"])


def _cast(name: str) -> Writer:
    return lambda node: f"{name}({expression(node.this)} AS {data_type(type_of(node.args['to']))})"


def _cast_or_literal(node: exp.Expression) -> str:
    if not is_typed_literal(node):
        return _cast("CAST")(node)
    target = type_of(node.args["to"])
    kind = target.names[0] if target.root is Root.NAMED else target.root.value
    word = "TIMESTAMP WITH LOCAL TIME ZONE" if target.root is Root.TIMESTAMP_LTZ else kind
    return f"{word} {_literal(node.this)}"


def _dot(node: exp.Expression) -> str:
    right = node.args["expression"]
    # 1 .a, for 1.a is 1. and a.
    left = expression(node.this) + (" " if isinstance(node.this, exp.Literal) else "")
    return f"{left}." + (
        expression(right) if isinstance(right, exp.Anonymous) else name_part(right)
    )


def _within(node: exp.Expression) -> str:
    inner = node.args["expression"]
    if isinstance(inner, exp.Distinct):
        return f"{expression(node.this)} WITHIN DISTINCT ({listed(inner.expressions)})"
    return f"{expression(node.this)} WITHIN GROUP ({order(inner)})"


def _infix(operator: Writer, binds: int) -> Writer:
    return lambda n: f"{expression(n.this)} {operator(n)} {expression(n.args['expression'], binds)}"


def _multiset(node: exp.Expression) -> str:
    return f"MULTISET {node.args['kind']}" + (" DISTINCT" if node.args.get("distinct") else "")


def _difference(node: exp.Expression) -> str:
    right = expression(node.args["expression"], 41)
    return f"({expression(node.this)} - {right}) {unit(node.args['unit'])}"


_POSTFIX = (exp.Is, exp.In, exp.Between, exp.Escape)

_WRITERS: dict[type[exp.Expression], Writer] = {
    **dict.fromkeys(BINARY, _chain),
    **dict.fromkeys((*_LIKES, *_POSTFIX), _predicate),
    exp.Column: parts,
    exp.Star: lambda n: "*",
    exp.Identifier: identifier,
    exp.Literal: _literal,
    exp.HexString: lambda n: f"X'{n.name}'",
    exp.National: lambda n: f"N{_literal(n.this)}",
    exp.Introducer: lambda n: f"_{n.name}{_literal(n.args['expression'])}",
    exp.Boolean: lambda n: "TRUE" if n.this else "FALSE",
    exp.Null: lambda n: n.args.get("kind") or "NULL",
    exp.Placeholder: lambda n: "?",
    exp.Var: lambda n: str(n.name),
    nodes.Verbatim: lambda n: str(n.this),
    exp.Cast: _cast_or_literal,
    exp.TryCast: _cast("TRY_CAST"),
    nodes.SafeCast: _cast("SAFE_CAST"),
    exp.Interval: interval,
    exp.Paren: lambda n: f"({expression(n.this)})",
    exp.Tuple: lambda n: f"({listed(n.expressions)})",
    exp.Bracket: lambda n: f"{expression(n.this)}[{listed(n.expressions)}]",
    exp.Dot: _dot,
    exp.Neg: _sign("-"),
    nodes.Plus: _sign("+"),
    exp.Case: _case,
    exp.Exists: lambda n: f"EXISTS ({query(n.this)})",
    nodes.Unique: lambda n: f"UNIQUE ({query(n.this)})",
    nodes.CursorOf: lambda n: f"CURSOR({query(n.this)})",
    exp.Subquery: lambda n: query(n),
    exp.Alias: alias,
    exp.Filter: lambda n: (
        f"{expression(n.this)} FILTER (WHERE {expression(n.args['expression'].this)})"
    ),
    exp.WithinGroup: _within,
    exp.IgnoreNulls: lambda n: f"{expression(n.this)} IGNORE NULLS",
    exp.RespectNulls: lambda n: f"{expression(n.this)} RESPECT NULLS",
    nodes.FormatJson: lambda n: f"{expression(n.this)} FORMAT JSON",
    nodes.MultisetOperation: lambda n: _infix(
        _multiset, 19 if n.args["kind"] == "INTERSECT" else 15
    )(n),
    nodes.PeriodPredicate: _infix(lambda n: str(n.args["kind"]).replace("_", " "), 31),
    nodes.Difference: _difference,
    nodes.SequenceValue: lambda n: f"{n.args['kind']} VALUE FOR {parts(n.this)}",
    nodes.New: lambda n: f"NEW {expression(n.this)}",
    nodes.Jdbc: lambda n: f"{{fn {expression(n.this)}}}",
    nodes.Modified: lambda n: f"{n.args['kind']} {expression(n.this)}",
    nodes.Model: lambda n: f"MODEL {parts(n)}",
    nodes.Separator: lambda n: f"SEPARATOR {_literal(n.this)}",
}

register_expressions(_WRITERS)
register_operators({exp.Not: _negated})
