"""Names that a query's columns get behind it: `t (a, b)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from planner.binder.scope import Query


def alias_columns(node: exp.Expression) -> list[str]:
    """The names of columns behind the alias of a relation; none where it names none."""
    alias = node.args.get("alias")
    return (
        [c.name for c in alias.args.get("columns") or ()]
        if isinstance(alias, exp.TableAlias)
        else []
    )


def renamed(query: Query, names: Sequence[str], node: exp.Expression) -> Query:
    """The query with `names` for its columns (none: as it is)."""
    if not names:
        return query
    if len(names) != len(query.names):
        raise wrong_count(names, query.names, node)
    return replace(query, names=tuple(names))


def wrong_count(names: Sequence[str], columns: Sequence[str], node: exp.Expression) -> PlanError:
    """The error of names that are not as many as the columns."""
    return PlanError(
        f"{len(names)} column names are given for {len(columns)} columns",
        detail=f"the columns are {', '.join(columns)}",
        position=position_of(node),
    )
