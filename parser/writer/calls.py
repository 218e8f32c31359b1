"""Function calls as SQL: NAME(a, b), or the form with keywords that the function has."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from parser import nodes
from parser.grammar.datatypes import type_of
from parser.grammar.json_calls import JSON_FUNCTIONS
from parser.grammar.reserved import NILADIC
from parser.writer.clauses import alias, order, ordered_items, parts
from parser.writer.dispatch import expression, listed, query, register_expressions
from parser.writer.names import backticked, data_type, identifier, name

# (function, number of arguments) -> its form where that is not NAME(a, b). All are what Flink's
# grammar wants.
_FORMS: dict[tuple[str, int], str] = {
    ("EXTRACT", 2): "EXTRACT({0} FROM {1})",
    ("TRIM", 3): "TRIM({0} {1} FROM {2})",
    ("POSITION", 2): "POSITION({0} IN {1})",
    ("POSITION", 3): "POSITION({0} IN {1} FROM {2})",
    ("OVERLAY", 3): "OVERLAY({0} PLACING {1} FROM {2})",
    ("OVERLAY", 4): "OVERLAY({0} PLACING {1} FROM {2} FOR {3})",
}
_WITH_UNIT = {
    "CEIL": "TO",
    "CEILING": "TO",
    "FLOOR": "TO",
    "CONVERT": "USING",
    "TRANSLATE": "USING",
}
_BRACKETS = ("ARRAY", "MAP", "MULTISET")
_WRAPPERS = {
    "WITHOUT": "WITHOUT WRAPPER",
    "CONDITIONAL": "WITH CONDITIONAL WRAPPER",
    "UNCONDITIONAL": "WITH UNCONDITIONAL WRAPPER",
}


def call(node: exp.Expression) -> str:
    function = str(node.this)
    items = node.expressions
    if function in NILADIC and not items:
        return function
    if function in JSON_FUNCTIONS:
        return f"{function}({' '.join(_json(function, items))})"
    if function in _BRACKETS:
        return _collection(function, items)
    values = [argument(a) for a in items]
    if function in _WITH_UNIT and len(items) == 2 and isinstance(items[1], exp.Var | exp.Anonymous):
        unit = isinstance(items[1], exp.Var) or items[1].this == "WEEK"
        return f"{function}({values[0]}{f' {_WITH_UNIT[function]} ' if unit else ', '}{values[1]})"
    form = _FORMS.get((function, len(items)))
    if form is not None and (
        function not in ("TRIM", "EXTRACT") or isinstance(items[0], exp.Var | exp.Anonymous)
    ):
        return form.format(*values)
    return f"{_qualified(node)}({_joined(items, values)})"


def _qualified(node: exp.Expression) -> str:
    qualifiers = [identifier(q) for q in node.args.get("qualifiers") or ()]
    return ".".join([*qualifiers, _function(str(node.this))])


def _function(text: str) -> str:
    """The name of a function: a reserved word is one, if it is the name of a function in Flink's
    grammar."""
    return (
        text
        if text.replace("_", "").replace("$", "").isalnum() and not text[0].isdigit()
        else backticked(text)
    )


def _joined(items: list[exp.Expression], values: list[str]) -> str:
    """Arguments with commas between them, but for what an aggregate has behind its arguments."""
    texts = [
        (" " if isinstance(item, exp.Order | nodes.Separator) else ", ") + value
        for item, value in zip(items, values, strict=True)
    ]
    return "".join(texts).removeprefix(", ")


def _collection(function: str, items: list[exp.Expression]) -> str:
    if len(items) == 1 and isinstance(items[0], exp.Select | exp.SetOperation | exp.Values):
        return f"{function}({query(items[0])})"
    return f"{function}[{', '.join(map(argument, items))}]"


def argument(node: exp.Expression) -> str:
    """An argument of a call, which may also be a table, a name with a value, or DISTINCT."""
    match node:
        case exp.Kwarg():
            key = str(node.this.name)
            return (
                f"{key if key == 'JSON_SCOPE' else name(key)} =>"
                f" {argument(node.args['expression'])}"
            )
        case exp.Distinct():
            return "DISTINCT " + ", ".join(map(argument, node.expressions))
        case exp.Table():
            return f"TABLE {parts(node)}{_set_semantics(node)}"
        case exp.Subquery():
            return f"({query(node.this)}){_set_semantics(node)}"
        case exp.Order():
            return order(node)
    return expression(node)


def _set_semantics(node: exp.Expression) -> str:
    text = ""
    if node.args.get("partition"):
        text += f" PARTITION BY ({listed(node.args['partition'].expressions)})"
    if node.args.get("order"):
        text += f" ORDER BY ({ordered_items(node.args['order'])})"
    return text


def _json(function: str, items: list[exp.Expression]) -> Iterator[str]:
    """Yields what stands between the parentheses of a JSON function, to be joined by spaces."""
    clauses = [i for i in items if isinstance(i, exp.Kwarg)]
    values = [i for i in items if not isinstance(i, exp.Kwarg | exp.Order)]
    if function.startswith("JSON_OBJECT"):
        pairs = zip(values[::2], values[1::2], strict=True)
        yield ", ".join(f"KEY {argument(k)} VALUE {argument(v)}" for k, v in pairs)
    else:
        yield ", ".join(map(argument, values))
    yield from (order(i) for i in items if isinstance(i, exp.Order))
    yield from (_clause(str(c.this.name), c.args["expression"]) for c in clauses)


def _clause(key: str, value: exp.Expression) -> str:
    if key == "RETURNING":
        return f"RETURNING {data_type(type_of(value))}"
    if key == "PASSING":
        return "PASSING " + ", ".join(map(alias, value.expressions))
    if key == "WRAPPER":
        return _WRAPPERS[str(value.name)]
    if key == "ON_NULL":
        return f"{value.name} ON NULL"
    behaviour = (
        str(value.name).replace("_", " ")
        if isinstance(value, exp.Var)
        else f"DEFAULT {argument(value)}"
    )
    return f"{behaviour} {key.replace('_', ' ')}"


register_expressions({exp.Anonymous: call})
