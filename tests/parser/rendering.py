"""Statements as text that people read: one line for a statement, one for each part that is not at
its default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum

from sqlglot import exp

from parser.statements import Statement
from parser.types import DataType

_HIDDEN = ("position", "subject", "places", "type_position")
# Lists that only have parts of one kind: its name says enough.
_PLURALS = (
    "columns constraints partition partitions options emit inserts assignments resources"
).split()


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
        case exp.DataType() if "kind" in node.args:
            return f"<{node.args['kind']}>"
        case exp.Var() | exp.Boolean() | exp.HexString():
            return f"{type(node).__name__}:{node.this}"
        case exp.Anonymous():
            name = ".".join([*(q.name for q in node.args.get("qualifiers") or ()), str(node.this)])
            return f"{name}({', '.join(map(render_tree, node.expressions))})"
        case exp.Interval() if "value" in node.meta:
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
    if is_dataclass(value) and not isinstance(value, type | DataType):
        kind = type(value).__name__
        yield f"{indent}{label}" if label in (kind, "watermark") else f"{indent}{label}: {kind}"
        for field in (f for f in fields(value) if f.compare):
            part = getattr(value, field.name)
            shown = field.default is MISSING or part != field.default
            if field.name not in _HIDDEN and shown and part not in (None, (), {}):
                yield from _lines(field.name, part, depth + 1)
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for part in value:
            kind = type(part).__name__
            yield from _lines(kind if label in _PLURALS else label, part, depth)
    elif (
        isinstance(value, tuple)
        and value
        and isinstance(value[0], tuple)
        and is_dataclass(value[0][0])
    ):
        for part in value:
            yield f"{indent}{label}"
            yield from _lines("partition", part, depth + 1)
    elif isinstance(value, Mapping):
        yield f"{indent}{label}: " + ", ".join(f"{k!r} = {v!r}" for k, v in value.items())
    else:
        yield f"{indent}{label}: {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_item, value))
    if isinstance(value, Enum):
        return str(value.value)
    return render_tree(value) if isinstance(value, exp.Expression) else str(value)


def _item(value: object) -> str:
    """A part of a list: a name with its dots, a tree, or anything else."""
    if isinstance(value, exp.Expression):
        return render_tree(value)
    return ".".join(value) if isinstance(value, tuple) else str(value)
