"""Queries and relations as SQL."""

from __future__ import annotations

from sqlglot import exp

from parser import nodes
from parser.grammar.datatypes import type_of
from parser.writer.clauses import order, parts
from parser.writer.dispatch import Writer, expression, listed, query, register_queries
from parser.writer.names import data_type, identifier
from parser.writer.patterns import match_recognize
from parser.writer.windows import window_specification

_SET_OPERATIONS: dict[type[exp.Expression], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def _around(node: exp.Expression, body: str) -> str:
    """WITH before it, ORDER BY, LIMIT and OFFSET behind it."""
    words = [_with(node.args["with_"])] if node.args.get("with_") else []
    words.append(body)
    if node.args.get("order"):
        words.append(order(node.args["order"]))
    counts = [
        (key, node.args[key].args["expression"])
        for key in ("limit", "offset")
        if node.args.get(key)
    ]
    words += [f"{key.upper()} {expression(count)}" for key, count in counts]
    return " ".join(words)


def _with(node: exp.Expression) -> str:
    recursive = "RECURSIVE " if node.args.get("recursive") else ""
    return f"WITH {recursive}" + ", ".join(
        f"{_named(c)} AS ({query(c.this)})" for c in node.expressions
    )


def _named(node: exp.Expression) -> str:
    """A TableAlias: name [(columns)]."""
    alias = node.args["alias"]
    columns = alias.args.get("columns")
    return identifier(alias.this) + (f" ({', '.join(map(identifier, columns))})" if columns else "")


def _set_operations(node: exp.Expression) -> str:
    """Operations that group from the left; the way down to the first query is a loop."""
    parts: list[str] = []
    first = True
    while isinstance(node, exp.SetOperation) and (first or not _decorated(node)):
        every = "" if node.args.get("distinct") else " ALL"
        parts.append(f"{_SET_OPERATIONS[type(node)]}{every} {query(node.args['expression'])}")
        node, first = node.this, False
    return " ".join([query(node), *reversed(parts)])


def _decorated(node: exp.Expression) -> bool:
    return any(node.args.get(k) for k in ("with_", "order", "limit", "offset"))


def _select(node: exp.Expression) -> str:
    args = node.args
    words = ["SELECT"]
    if args.get("hint"):
        words.append(hint(args["hint"]))
    words += [word for word, key in (("STREAM", "kind"), ("DISTINCT", "distinct")) if args.get(key)]
    words.append(listed(node.expressions))
    if args.get("from_"):
        words.append(f"FROM {sources(args['from_'].this, args.get('joins'))}")
    if args.get("where"):
        words.append(f"WHERE {expression(args['where'].this)}")
    if args.get("group"):
        words.append(_group(args["group"]))
    if args.get("having"):
        words.append(f"HAVING {expression(args['having'].this)}")
    if args.get("windows"):
        windows = (f"{identifier(w.this)} AS {window_specification(w)}" for w in args["windows"])
        words.append(f"WINDOW {', '.join(windows)}")
    if args.get("qualify"):
        words.append(f"QUALIFY {expression(args['qualify'].this)}")
    return " ".join(words)


def hint(node: exp.Expression) -> str:
    return f"/*+ {hints(node.expressions)} */"


def hints(items: list[exp.Expression]) -> str:
    return ", ".join(f"{h.this}({listed(h.expressions)})" for h in items)


def _group(node: exp.Expression) -> str:
    distinct = "DISTINCT " if node.args.get("distinct") else ""
    return f"GROUP BY {distinct}" + ", ".join(map(_grouping, node.expressions))


def _grouping(node: exp.Expression) -> str:
    word = _GROUPINGS.get(type(node))
    if word is None:
        return expression(node)
    return f"{word} ({', '.join(map(_grouping, node.expressions))})"


_GROUPINGS: dict[type[exp.Expression], str] = {
    exp.GroupingSets: "GROUPING SETS",
    exp.Cube: "CUBE",
    exp.Rollup: "ROLLUP",
}


def _values(node: exp.Expression) -> str:
    return "VALUES " + listed(node.expressions)


def sources(first: exp.Expression, joins: list[exp.Expression] | None) -> str:
    return relation(first) + "".join(map(_join, joins or ()))


def _join(node: exp.Expression) -> str:
    args = node.args
    if not any(args.get(k) for k in ("side", "kind", "method")):
        return f", {relation(node.this)}"
    kind = "CROSS" if args.get("kind") == "CROSS" else None
    text = " ".join(str(w) for w in (args.get("method"), args.get("side"), kind, "JOIN") if w)
    text = f" {text} {relation(node.this)}"
    if args.get("on"):
        return f"{text} ON {expression(args['on'])}"
    if args.get("using"):
        return f"{text} USING ({', '.join(map(identifier, args['using']))})"
    return text


def relation(node: exp.Expression) -> str:
    """Writes one relation and its suffixes."""
    words = [_RELATIONS[type(node)](node)]
    if node.args.get("match"):
        words.append(match_recognize(node.args["match"]))
    words += map(_pivot, node.args.get("pivots") or ())
    if node.args.get("alias"):
        words.append(f"AS {_named(node)}")
    if node.args.get("sample"):
        words.append(_sample(node.args["sample"]))
    return " ".join(words)


def _table(node: exp.Expression) -> str:
    words = [parts(node)]
    words += map(hint, node.args.get("hints") or ())
    if node.args.get("extend"):
        words.append(extension(node.args["extend"]))
    if node.args.get("version"):
        time = expression(node.args["version"].args["expression"])
        words.append(f"FOR SYSTEM_TIME AS OF {time}")
    return " ".join(words)


def extension(items: list[exp.Expression]) -> str:
    columns = (f"{expression(i.this)} {data_type(type_of(i.args['to']))}" for i in items)
    return f"EXTEND ({', '.join(columns)})"


def _parenthesised(node: exp.Expression) -> str:
    """A query or a join in parentheses; the node can have ORDER BY and LIMIT of its own behind
    them."""
    inner = node.this
    joined = isinstance(inner, exp.Subquery) and (
        inner.args.get("alias") or inner.args.get("joins")
    )
    if type(inner) in _RELATIONS and (joined or not isinstance(inner, exp.Subquery)):
        return f"({sources(inner, inner.args.get('joins'))})"
    return f"({query(inner)})"


def _lateral(node: exp.Expression) -> str:
    if isinstance(node.this, exp.Subquery):
        return f"LATERAL {_parenthesised(node.this)}"
    return f"LATERAL TABLE({expression(node.this)})"


def _unnest(node: exp.Expression) -> str:
    text = f"UNNEST({listed(node.expressions)})"
    return f"{text} WITH ORDINALITY" if node.args.get("offset") else text


def _pivot(node: exp.Expression) -> str:
    columns = _list_or_one(node.args["columns"])
    if isinstance(node, nodes.Unpivot):
        nulls = f"{node.args['nulls']} NULLS " if node.args.get("nulls") else ""
        values = ", ".join(map(_unpivoted, node.args["values"]))
        return f"UNPIVOT {nulls}({_list_or_one(node.expressions)} FOR {columns} IN ({values}))"
    values = listed(node.args["values"])
    return f"PIVOT ({listed(node.expressions)} FOR {columns} IN ({values}))"


def _unpivoted(node: exp.Expression) -> str:
    values = node.args.get("values")
    columns = _list_or_one(node.args["columns"])
    return columns + (f" AS ({listed(values)})" if values else "")


def _list_or_one(items: list[exp.Expression]) -> str:
    return identifier(items[0]) if len(items) == 1 else f"({', '.join(map(identifier, items))})"


def _sample(node: exp.Expression) -> str:
    seed = f" REPEATABLE ({expression(node.args['seed'])})" if node.args.get("seed") else ""
    return f"TABLESAMPLE {node.args['method']} ({expression(node.args['size'])}){seed}"


_BODIES: dict[type[exp.Expression], Writer] = {
    **dict.fromkeys(_SET_OPERATIONS, _set_operations),
    exp.Select: _select,
    exp.Values: _values,
    exp.Subquery: _parenthesised,
}
_RELATIONS: dict[type[exp.Expression], Writer] = {
    exp.Table: _table,
    exp.Subquery: lambda n: _around(n, _parenthesised(n)),
    exp.TableFromRows: lambda n: f"TABLE({expression(n.this)})",
    exp.Lateral: _lateral,
    exp.Unnest: _unnest,
    exp.Values: _values,
}


def _writer(body: Writer) -> Writer:
    return lambda node: _around(node, body(node))


register_queries({kind: _writer(body) for kind, body in _BODIES.items()})
