"""The objects and functions that statements refer to."""

from __future__ import annotations

from sqlglot import exp

from parser.statements import CreateFunction, CreateTable, CreateView
from planner.binder.expressions.calls import user_function
from planner.catalog import Catalog, Function, Identifier


def expressions_of(statement: CreateTable | CreateView | CreateFunction) -> list[exp.Expression]:
    """The queries and expressions in a definition."""
    if isinstance(statement, CreateView):
        return [statement.query]
    if isinstance(statement, CreateFunction):
        return []
    computed = [c.expression for c in statement.columns if c.expression is not None]
    return [*computed, statement.watermark.expression] if statement.watermark else computed


def called(query: exp.Expression, catalog: Catalog) -> list[Function]:
    """The users' functions that a query calls."""
    functions = (user_function(call, catalog) for call in query.find_all(exp.Anonymous))
    return [f for f in functions if f is not None]


def names_of(query: exp.Expression, catalog: Catalog) -> set[Identifier]:
    """The tables and views that a query names, and its CTEs, whose names stand for no object."""
    names = set()
    for table in query.find_all(exp.Table):
        parts = tuple(p.name for p in table.parts if isinstance(p, exp.Identifier))
        if 1 <= len(parts) <= 3:
            names.add(catalog.resolve(parts))
    return names
