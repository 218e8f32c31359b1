"""Subqueries in the syntax tree: how they are used, and in which conditions."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

# What is asked of any value where a comparison stands before ANY, and before ALL, of which that is
# the contrary.
QUANTIFIED: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "<>"),
    exp.NEQ: ("<>", "="),
    exp.LT: ("<", ">="),
    exp.LTE: ("<=", ">"),
    exp.GT: (">", "<="),
    exp.GTE: (">=", "<"),
}


def is_membership(node: exp.Expression) -> bool:
    """IN, = ANY, or <> ALL, which is NOT IN."""
    right = node.args.get("expression")
    return isinstance(node, exp.In) or (type(node), type(right)) in (
        (exp.EQ, exp.Any),
        (exp.NEQ, exp.All),
    )


def is_asked_for_truth(node: exp.Expression) -> bool:
    """Returns True if the expression is an operand of IS [NOT] TRUE, to which FALSE and UNKNOWN are
    one."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    right = above.args["expression"] if isinstance(above, exp.Is) else None
    return isinstance(right, exp.Boolean) and bool(right.this)


def query_of(node: exp.Expression) -> exp.Expression:
    """The query of IN, EXISTS, a comparison with ANY or ALL, or one in parentheses."""
    if isinstance(node, exp.In):
        return _bare(node.args["query"])
    if type(node) in QUANTIFIED:
        return _bare(node.args["expression"].this)
    return _bare(node.this)


def without_version(query: exp.Expression) -> tuple[exp.Expression, exp.Expression | None]:
    """Returns a query without the FOR SYSTEM_TIME AS OF of its FROM, and the expression that stood
    there; None where the query reads more than that table, or there is none."""
    source = query.args.get("from_")
    table = source.this if isinstance(query, exp.Select) and source is not None else None
    version = None if table is None else table.args.get("version")
    if not isinstance(version, exp.Version) or query.args.get("joins"):
        return query, None
    plain = query.copy()
    plain.args["from_"].this.set("version", None)
    return plain, version.args["expression"]


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Subquery | exp.Paren) and not node.args.get("with_"):
        node = node.this
    return node


def conjuncts_of(node: exp.Expression) -> Iterable[exp.Expression]:
    """The operands of a condition that is an AND, in order; NOT (a OR b) is one, too."""
    stack = [node]
    while stack:
        current = stack.pop()
        bare, negated = _bared(current)
        if isinstance(bare, exp.Or if negated else exp.And):
            operands = (bare.args["expression"], bare.this)
            stack += (exp.Not(this=exp.Paren(this=o.copy())) if negated else o for o in operands)
        else:
            yield current


def _bared(node: exp.Expression) -> tuple[exp.Expression, bool]:
    """Returns the condition inside NOT and parentheses, and True if it is negated."""
    negated = False
    while isinstance(node, exp.Paren | exp.Not):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    return node, negated


def asks(node: exp.Expression) -> tuple[exp.Expression, bool] | None:
    """IN, EXISTS or = ANY of a subquery, and whether it is negated; None for all other
    conditions."""
    node, negated = _bared(node)
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return node, negated
    if isinstance(node, exp.Exists):
        return node, negated
    right = node.args.get("expression")
    for kind, quantifier, flips in ((exp.EQ, exp.Any, False), (exp.NEQ, exp.All, True)):
        if (
            isinstance(node, kind)
            and isinstance(right, quantifier)
            and isinstance(_bare(right.this), exp.Query)
        ):
            return node, negated ^ flips
    return None
