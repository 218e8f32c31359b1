"""The dispatch from the nodes of a tree to the functions that write them.

Trees are recursive: a call holds expressions, an expression queries, a query calls. Each file of
this folder registers its writers here by the class of the node, and writes nested nodes through
`expression` and `query`, so that the files do not import each other. `parser.writer` imports all
files that register.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlglot import exp

Writer: TypeAlias = Callable[[exp.Expression], str]
# Also takes how tightly operators must bind at the place where the node stands.
OperatorWriter: TypeAlias = Callable[[exp.Expression, int], str]

_OPERATORS: dict[type[exp.Expression], OperatorWriter] = {}
_EXPRESSIONS: dict[type[exp.Expression], Writer] = {}
_QUERIES: dict[type[exp.Expression], Writer] = {}


def register_operators(writers: Mapping[type[exp.Expression], OperatorWriter]) -> None:
    _OPERATORS.update(writers)


def register_expressions(writers: Mapping[type[exp.Expression], Writer]) -> None:
    _EXPRESSIONS.update(writers)


def register_queries(writers: Mapping[type[exp.Expression], Writer]) -> None:
    _QUERIES.update(writers)


def expression(node: exp.Expression, minimum: int = 0) -> str:
    """The SQL of `node` at a place for operators that bind at least as tightly as `minimum`."""
    kind = type(node)
    operator = _OPERATORS.get(kind)
    if operator is not None:
        return operator(node, minimum)
    writer = _EXPRESSIONS.get(kind)
    if writer is None:
        raise TypeError(f"{kind.__name__} is no node of an expression")
    return writer(node)


def query(node: exp.Expression) -> str:
    """The SQL of a query, without parentheses around it."""
    writer = _QUERIES.get(type(node))
    if writer is None:
        raise TypeError(f"{type(node).__name__} is no query")
    return writer(node)


def listed(items: list[exp.Expression]) -> str:
    """The SQL of expressions, separated by commas."""
    return ", ".join(map(expression, items))
