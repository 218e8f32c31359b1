"""NEW_TERM(value, …, INTERVAL '30' DAY) in WHERE: rows whose values were not there before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import BOOLEAN, Root
from planner.binder import pool
from planner.binder.computed import name_in
from planner.binder.expressions.calls import CALLS
from planner.binder.expressions.scalars import bind_condition, bind_scalar
from planner.binder.scope import Place
from planner.binder.subqueries.syntax import conjuncts_of
from planner.logical import Filter, LogicalPlan, NewTerm, Project
from planner.passes.constant_folding import folded
from planner.rewrite import conjunction
from planner.scalar import Literal, Scalar

NAME = "NEW_TERM"
_FORM = "write NEW_TERM(user, country, INTERVAL '30' DAY), or without an interval for ever"


def register_binders() -> None:
    """Makes calls of NEW_TERM known."""
    CALLS[NAME] = _in_where


def _in_where(node: exp.Expression, place: Place) -> Scalar:
    column = place.special(node) if place.clause == "WHERE" and place.special is not None else None
    if column is None:
        hint = "put it into WHERE as one of the conditions of an AND"
        raise PlanError(
            f"{NAME} cannot stand in {place.clause}", hint=hint, position=position_of(node)
        )
    return column


def split(condition: exp.Expression) -> tuple[exp.Expression | None, list[exp.Expression]]:
    """Returns the condition without the parts that have NEW_TERM, None where nothing is left, and
    these parts."""
    if not _asks(condition):
        return condition, []
    parts = list(conjuncts_of(condition))
    plain = [part for part in parts if not _asks(part)]
    asking = [part for part in parts if _asks(part)]
    return (reduce(_both, plain) if plain else None), asking


def filtered(plan: LogicalPlan, parts: Sequence[exp.Expression], place: Place) -> LogicalPlan:
    """Returns the rows of `plan` for which all parts are TRUE.

    Only these rows are remembered: NEW_TERM is asked behind the other conditions of an AND. Its
    time is the row time of the rows where they have one, else the clock's."""
    calls = _Calls(plan, place)
    within = Place(place.context, place.scope, "WHERE", calls.column, place.subqueries)
    predicate = conjunction([bind_condition(part, within) for part in parts])
    return Filter(calls.plan(), predicate, place.context.salt((predicate,)))


def _both(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    return exp.And(this=left.copy(), expression=right.copy())


def _asks(part: exp.Expression) -> bool:
    return any(_is_call(found) for found in part.find_all(exp.Anonymous))


def _is_call(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == NAME


@dataclass
class _Calls:
    """The calls of NEW_TERM in one WHERE over the rows of `below`."""

    below: LogicalPlan
    place: Place
    _computed: dict[str, Scalar] = field(default_factory=dict)
    _nodes: list[tuple[tuple[str, ...], int, exp.Expression]] = field(default_factory=list)

    def column(self, node: exp.Expression) -> Scalar | None:
        """Returns the column that stands for a call; None for anything else."""
        if not _is_call(node):
            return None
        if self.below.changes:
            raise UnsupportedError(
                f"{NAME} over rows that are updated is not supported",
                hint="ask it of the rows before they are grouped or joined",
                position=position_of(node),
            )
        values = [bind_scalar(n, self.place) for n in node.expressions]
        memory_ms = _memory(values[-1], node) if values else 0
        asked = values[:-1] if memory_ms else values
        terms = tuple(name_in(self._computed, value, "term$") for value in asked)
        if not terms:
            raise PlanError(f"{NAME} takes values", hint=_FORM, position=position_of(node))
        self._nodes.append((terms, memory_ms, node))
        return pool.column(f"new${len(self._nodes) - 1}", BOOLEAN)

    def plan(self) -> LogicalPlan:
        """Returns the rows with the columns of the calls behind their own."""
        plan, times = self.below, [c.name for c in self.below.schema if c.type.is_rowtime]
        if self._computed:
            own = [(c.name, pool.column(c.name, c.type)) for c in plan.schema]
            plan = Project(plan, (*own, *self._computed.items()))
        time = times[0] if len(times) == 1 else None
        for number, (terms, memory_ms, node) in enumerate(self._nodes):
            plan = NewTerm(plan, terms, memory_ms, f"new${number}", time, position_of(node))
        return plan


def _memory(value: Scalar, node: exp.Expression) -> int:
    """The milliseconds of an interval; 0 for any other value, which is a term."""
    if value.type.root not in (Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH):
        return 0
    value = folded(value)
    of_days = value.type.root is Root.INTERVAL_DAY_TIME
    found = value.value if isinstance(value, Literal) and of_days else None
    if not isinstance(found, int) or found <= 0:
        message = f"the memory of {NAME} is an interval of days to seconds, as a literal"
        raise PlanError(message, hint=_FORM, position=position_of(node))
    return found
