"""Expressions of definitions as DESCRIBE and SHOW CREATE show them: what Flink's validator has made
of them."""

from __future__ import annotations

from sqlglot import exp

from parser import nodes
from parser.grammar.datatypes import type_of
from parser.grammar.literals import is_typed_literal
from parser.types import DataType, Root
from parser.writer.dispatch import expression
from parser.writer.expressions import BINARY
from parser.writer.names import backticked, data_type

# What Flink's catalog of functions defines; other functions are part of its grammar, and have no
# backticks.
_NAMED = frozenset(
    """
    ARRAY_APPEND ARRAY_CONCAT ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_JOIN
    ARRAY_MAX ARRAY_MIN ARRAY_POSITION ARRAY_PREPEND ARRAY_REMOVE ARRAY_REVERSE ARRAY_SLICE
    ARRAY_SORT ARRAY_UNION BITMAP_AND BITMAP_ANDNOT BITMAP_AND_AGG BITMAP_AND_CARDINALITY_AGG
    BITMAP_BUILD BITMAP_BUILD_AGG BITMAP_BUILD_CARDINALITY_AGG BITMAP_CARDINALITY BITMAP_FROM_BYTES
    BITMAP_OR BITMAP_OR_AGG BITMAP_OR_CARDINALITY_AGG BITMAP_TO_ARRAY BITMAP_TO_BYTES
    BITMAP_TO_STRING BITMAP_XOR BITMAP_XOR_AGG BITMAP_XOR_CARDINALITY_AGG BTRIM CURRENT_WATERMARK
    ELT ENDSWITH FROM_CHANGELOG GREATEST IFNULL INET_ATON INET_NTOA JSON JSON_QUOTE JSON_STRING
    JSON_UNQUOTE LEAST MAP_ENTRIES MAP_FROM_ARRAYS MAP_KEYS MAP_UNION MAP_VALUES ML_PREDICT
    OBJECT_OF OBJECT_UPDATE PARSE_JSON PERCENTILE PRINTF REGEXP_COUNT REGEXP_EXTRACT_ALL
    REGEXP_INSTR REGEXP_SUBSTR SOURCE_WATERMARK SPLIT STARTSWITH TO_CHANGELOG TO_TIMESTAMP_LTZ
    TRANSLATE TRY_PARSE_JSON TYPEOF UNHEX URL_DECODE URL_ENCODE
    """.split()
)
_PARTS = dict.fromkeys("YEAR QUARTER MONTH WEEK HOUR MINUTE SECOND".split()) | {
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
}
_OPERANDS = (exp.Column, exp.Literal, exp.Anonymous, exp.Cast, exp.TryCast, exp.Case, exp.Paren)
# What stands in these needs no parentheses.
_INSIDE = (exp.Anonymous, exp.If, exp.Case, exp.Cast, exp.TryCast)


def write_shown(node: exp.Expression) -> str:
    """The SQL of a scalar expression with all names of columns in backticks."""
    whole = exp.Paren(this=node.copy())
    for part in reversed(list(whole.this.walk())):
        rewritten = _shown(part)
        if rewritten is not part:
            part.replace(rewritten)
    return expression(whole.this)


def _shown(node: exp.Expression) -> exp.Expression:
    """The node that is written as Flink shows it. What is below it is so already."""
    match node:
        case exp.Column():
            for part in node.parts:
                part.set("quoted", True)
        case exp.Literal():
            return _literal(node)
        case exp.Anonymous():
            return _call(node)
        case exp.Between() if not isinstance(node.parent, exp.Not):
            return _between(node, "")
        case exp.Not() if isinstance(node.this, exp.Between):
            return _between(node.this, "NOT ")
        case exp.Neg() | nodes.Plus() if not isinstance(node.this, exp.Literal):
            return _text(f"{'-' if isinstance(node, exp.Neg) else '+'} {expression(node.this, 80)}")
        case exp.Case():
            _spell_out(node)
        case exp.Cast() | exp.TryCast() if not is_typed_literal(node):
            kind = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
            return _text(f"{kind}({expression(node.this)} AS {_type(type_of(node.args['to']))})")
        case exp.Paren(this=exp.Expression() as inner) if _needless(node):
            return inner
    return node


def _text(sql: str) -> exp.Expression:
    return nodes.Verbatim(this=sql)


def _literal(node: exp.Literal) -> exp.Expression:
    """Text beyond ASCII by its code units; an exponent behind a capital E."""
    if not node.is_string:
        node.set("this", node.name.upper())
    if node.name.isascii():
        return node
    units = node.name.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2))
    shown = "".join(chr(c) if c < 128 else f"\\{c:04x}" for c in codes)
    return _text("u&'" + shown.replace("'", "''") + "'")


def _call(node: exp.Anonymous) -> exp.Expression:
    function, items = str(node.this), node.expressions
    if function in _PARTS and len(items) == 1:
        return _text(f"EXTRACT({_PARTS[function] or function} FROM {expression(items[0])})")
    if function == "NULLIF" and len(items) == 2:
        left, right = map(expression, items)
        return _text(f"CASE WHEN {left} = {right} THEN NULL ELSE {left} END")
    if function == "TRIM" and len(items) == 1:
        return _text(f"TRIM(BOTH ' ' FROM {expression(items[0])})")
    if function == "CEILING":
        node.set("this", "CEIL")
    if function in _NAMED and expression(node).startswith(f"{function}("):
        return _text(backticked(function) + expression(node).removeprefix(function))
    return node


def _between(node: exp.Between, negation: str) -> exp.Expression:
    kind = "SYMMETRIC" if node.args.get("symmetric") else "ASYMMETRIC"
    low, high = expression(node.args["low"], 26), expression(node.args["high"], 33)
    return _text(f"{expression(node.this)} {negation}BETWEEN {kind} {low} AND {high}")


def _spell_out(node: exp.Case) -> None:
    """CASE a WHEN b is CASE WHEN a = b; without ELSE there is ELSE NULL."""
    value = node.this
    if value is not None:
        for branch in node.args["ifs"]:
            branch.set("this", exp.EQ(this=value.copy(), expression=branch.this))
        node.set("this", None)
    if node.args.get("default") is None:
        node.set("default", exp.Null())


def _needless(node: exp.Paren) -> bool:
    """True if the expression means the same without these parentheses."""
    inner, around = node.this, node.parent
    if isinstance(inner, _OPERANDS) or isinstance(around, _INSIDE) or (type(around) is exp.Paren):
        return True
    binds = BINARY.get(type(inner), ("", 0))[1]
    if isinstance(around, exp.Not):
        return binds == 30
    if not isinstance(around, exp.Expression):
        return False
    outer = BINARY.get(type(around), ("", 99))[1]
    return binds > outer or (binds == outer and node is around.this)


def _type(t: DataType) -> str:
    if t.root is Root.ROW:
        fields = (f"{backticked(n)} {_type(c)}" for n, c in zip(t.names, t.children, strict=True))
        shown = f"ROW< {', '.join(fields)} >"
    elif t.children:
        shown = f"{t.root.value}< {', '.join(map(_type, t.children))} >"
    elif t.root is Root.INT:
        shown = "INTEGER"
    else:
        return data_type(t)
    return shown if t.nullable else f"{shown} NOT NULL"
