"""Statements as text that people read: one line for a statement, one for each part that is not at its default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum

from sqlglot import exp

from parser.statements import Statement

_HIDDEN = ("position", "sql")


def render_statement(statement: Statement) -> str:
    return "\n".join(_lines(type(statement).__name__, statement, 0))


def render_tree(node: object) -> str:
    """A tree in prefix form: `(And (EQ a 1) (Like b 'x%'))`."""
    match node:
        case exp.Column() if isinstance(node.this, exp.Identifier):
            return ".".join(part.name for part in node.parts)
        case exp.Identifier():
            return str(node.name)
        case exp.Literal():
            return f"'{node.this}'" if node.is_string else str(node.this)
        case exp.DataType():
            return f"<{node.meta['type']}>" if "type" in node.meta else _call(node)
        case exp.Var() | exp.Boolean() | exp.HexString():
            return f"{type(node).__name__}:{node.this}"
        case exp.Anonymous():
            return f"{node.this}({', '.join(map(render_tree, node.expressions))})"
        case exp.Interval():
            return f"Interval:{node.meta['value']}{' months' if node.meta['months'] else ' ms'}"
        case exp.Expression():
            return _call(node)
        case list():
            return "[" + " ".join(map(render_tree, node)) + "]"
    return str(node)


def _call(node: exp.Expression) -> str:
    """(Class first-argument second-argument name=other), leaving out what is absent."""
    parts = [type(node).__name__]
    for key, value in node.args.items():
        if value is None or value is False or value == []:
            continue
        plain = key in ("this", "expression", "expressions")
        parts.append(render_tree(value) if plain else f"{key}={render_tree(value)}")
    return "(" + " ".join(parts) + ")"


def _lines(label: str, value: object, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__ == "parser.statements":
        kind = type(value).__name__
        yield f"{indent}{label}" if label in (kind, "watermark") else f"{indent}{label}: {kind}"
        for field in fields(value):
            part = getattr(value, field.name)
            shown = field.default is MISSING or part != field.default
            if field.name not in _HIDDEN and shown and part not in (None, (), {}):
                yield from _lines(field.name, part, depth + 1)
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for part in value:
            yield from _lines(type(part).__name__, part, depth)
    elif isinstance(value, Mapping):
        yield f"{indent}{label}: " + ", ".join(f"{k!r} = {v!r}" for k, v in value.items())
    else:
        yield f"{indent}{label}: {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Enum):
        return str(value.value)
    return render_tree(value) if isinstance(value, exp.Expression) else str(value)
