"""MATCH_RECOGNIZE as SQL."""

from __future__ import annotations

from sqlglot import exp

from parser import nodes
from parser.writer.clauses import interval, order
from parser.writer.dispatch import expression, listed
from parser.writer.names import identifier

_SKIPS = {"NEXT": "TO NEXT ROW", "PAST": "PAST LAST ROW", "FIRST": "TO FIRST", "LAST": "TO LAST"}


def match_recognize(node: exp.Expression) -> str:
    args = node.args
    words: list[str] = []
    if args.get("partition_by"):
        words.append(f"PARTITION BY {listed(args['partition_by'])}")
    if args.get("order"):
        words.append(order(args["order"]))
    if args.get("measures"):
        words.append(f"MEASURES {listed(args['measures'])}")
    if args.get("rows"):
        words.append("ONE ROW PER MATCH" if args["rows"].name == "ONE" else "ALL ROWS PER MATCH")
    if args.get("after"):
        words.append(_skip(args["after"]))
    words.append(_pattern_clause(node))
    if args.get("within"):
        words.append(f"WITHIN {interval(args['within'])}")
    if args.get("subset"):
        words.append("SUBSET " + ", ".join(map(_subset, args["subset"])))
    definitions = (f"{identifier(d.args['alias'])} AS {expression(d.this)}" for d in args["define"])
    words.append(f"DEFINE {', '.join(definitions)}")
    return f"MATCH_RECOGNIZE ({' '.join(words)})"


def _skip(node: exp.Expression) -> str:
    text = f"AFTER MATCH SKIP {_SKIPS[node.args['kind']]}"
    return f"{text} {identifier(node.this)}" if node.this is not None else text


def _pattern_clause(node: exp.Expression) -> str:
    start = "^ " if node.args.get("starts") else ""
    end = " $" if node.args.get("ends") else ""
    return f"PATTERN ({start}{_pattern(node.args['pattern'])}{end})"


def _pattern(node: exp.Expression) -> str:
    match node:
        case nodes.PatternSequence():
            return " ".join(map(_pattern, node.expressions))
        case nodes.PatternChoice():
            return " | ".join(map(_pattern, node.expressions))
        case nodes.PatternRepeat():
            return _pattern(node.this) + _bounds(node)
        case nodes.PatternExclusion():
            return f"{{- {_pattern(node.this)} -}}"
        case nodes.PatternAbsence():
            return f"[^{identifier(node.this)}]"
        case nodes.PatternPermutation():
            return f"PERMUTE ({', '.join(map(_pattern, node.expressions))})"
        case exp.Paren():
            return f"({_pattern(node.this)})"
    return identifier(node)


_SHORT: dict[tuple[str | None, str | None], str] = {
    ("0", None): "*",
    ("1", None): "+",
    ("0", "1"): "?",
}


def _bounds(node: exp.Expression) -> str:
    low, high = (node.args[k].name if node.args.get(k) else None for k in ("low", "high"))
    short = _SHORT.get((low, high))
    if short is None:
        short = f"{{{low}}}" if low == high else f"{{{low or ''},{high or ''}}}"
    return short + ("?" if node.args.get("reluctant") else "")


def _subset(node: exp.Expression) -> str:
    return f"{identifier(node.this)} = ({listed(node.expressions)})"
