"""OVER and what stands in its parentheses, as SQL."""

from __future__ import annotations

from sqlglot import exp

from parser.writer.clauses import order
from parser.writer.dispatch import expression, listed, register_expressions
from parser.writer.names import identifier


def window(node: exp.Expression) -> str:
    function = expression(node.this)
    if not node.args.get("over"):
        return f"{function} OVER {identifier(node.args['alias'])}"
    return f"{function} OVER {window_specification(node)}"


def window_specification(node: exp.Expression) -> str:
    """([name] [PARTITION BY …] [ORDER BY …] [ROWS | RANGE …])"""
    words = [identifier(node.args["alias"])] if node.args.get("alias") else []
    if node.args.get("partition_by"):
        words.append(f"PARTITION BY {listed(node.args['partition_by'])}")
    if node.args.get("order"):
        words.append(order(node.args["order"]))
    if node.args.get("spec"):
        words.append(_frame(node.args["spec"]))
    if node.args.get("partial"):
        words.append(f"{node.args['partial']} PARTIAL")
    return f"({' '.join(words)})"


def _frame(node: exp.Expression) -> str:
    bounds = (_bound(node.args[side], node.args.get(f"{side}_side")) for side in ("start", "end"))
    return f"{node.args['kind']} BETWEEN " + " AND ".join(bounds)


def _bound(value: exp.Expression | str, side: str | None) -> str:
    text = value.replace("_", " ") if isinstance(value, str) else expression(value)
    return f"{text} {side}" if side else text


register_expressions({exp.Window: window})
