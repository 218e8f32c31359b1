"""Clauses that calls, windows, patterns and queries share: names, ORDER BY, intervals, aliases."""

from __future__ import annotations

from sqlglot import exp

from parser.writer.dispatch import expression
from parser.writer.names import identifier


def parts(node: exp.Expression) -> str:
    """catalog.db.table.this, as far as they are given."""
    keys = ("catalog", "db", "table", "this")
    return ".".join(name_part(node.args[k]) for k in keys if node.args.get(k) is not None)


def name_part(node: exp.Expression) -> str:
    """Writes one part of a dotted name: `*` or an identifier."""
    return "*" if isinstance(node, exp.Star) else identifier(node)


def unit(node: exp.Expression) -> str:
    """The unit of an interval: DAY, DAY(3), DAY TO SECOND."""
    if isinstance(node, exp.IntervalSpan):
        return f"{unit(node.this)} TO {unit(node.args['expression'])}"
    return expression(node) if isinstance(node, exp.Anonymous) else str(node.name)


def interval(node: exp.Expression) -> str:
    value = node.this
    sign = "-" if isinstance(value, exp.Neg) else ""
    return f"INTERVAL {sign}{expression(value.this if sign else value)} {unit(node.args['unit'])}"


def order(node: exp.Expression) -> str:
    return f"ORDER BY {ordered_items(node)}"


def ordered_items(node: exp.Expression) -> str:
    return ", ".join(map(_ordered, node.expressions))


def _ordered(node: exp.Expression) -> str:
    """NULLS FIRST and LAST are written where they are not what Flink takes without them."""
    descending, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    nulls = "" if first is not descending else " NULLS FIRST" if first else " NULLS LAST"
    return expression(node.this) + (" DESC" if descending else "") + nulls


def alias(node: exp.Expression) -> str:
    return f"{expression(node.this)} AS {identifier(node.args['alias'])}"
