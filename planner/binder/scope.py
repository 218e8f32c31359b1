"""Name resolution: the columns in scope at one place of a query, and the context of binding besides
the text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Protocol

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, Position
from parser.limits import refused
from parser.statements import CreateFunction
from planner.analysis.time_zones import uses_zone, zone_of
from planner.binder import pool
from planner.catalog import Catalog
from planner.logical import LogicalPlan
from planner.scalar import UTC, ColumnRef, Scalar, is_deterministic_per_epoch
from planner.settings import TIME_ZONE, is_batch
from udf.user import UserFunction

# Finds out what a CREATE FUNCTION names; SqlError where it names nothing.
Load = Callable[[CreateFunction], UserFunction]

# What names of columns begin with that a subquery reads of the query around it; no name in a text
# does.
OUTER = "\u2191"


class UnknownColumn(PlanError):
    """No column of that name is in reach."""


@dataclass(frozen=True)
class Field:
    """A column that can be named: `relation`.`name`; `column` is the input's column that it stands
    for. `merged`: only so, since its name alone means the column that a join made of it and another
    one. `twice`: its relation has two columns of the name, so that * does not stand for them."""

    relation: tuple[str, ...]
    name: str
    column: ColumnRef
    merged: bool = False
    twice: bool = False


@dataclass(frozen=True)
class Scope:
    """The columns in reach, in order."""

    fields: tuple[Field, ...] = ()

    @property
    def named(self) -> tuple[Field, ...]:
        """The columns that a name alone means: what * stands for."""
        return tuple(f for f in self.fields if not f.merged)

    @cached_property
    def _by_name(self) -> dict[str, list[Field]]:
        names: dict[str, list[Field]] = {}
        for f in self.fields:
            names.setdefault(f.name, []).append(f)
        return names

    def resolve(self, name: str, relation: tuple[str, ...], node: exp.Expression) -> ColumnRef:
        """The column of that name; PlanError where there is none, or more than one."""
        named = self._by_name.get(name, ())
        matches = [
            f
            for f in named
            if (f.relation[-len(relation) :] == relation if relation else not f.merged)
        ]
        if len(matches) == 1:
            return matches[0].column
        if matches:
            hint = "give each column its own name with AS"
            raise PlanError(f"column '{name}' is ambiguous", hint=hint, position=position_of(node))
        raise self._unknown(name, relation, node)

    def of_relation(self, relation: tuple[str, ...], node: exp.Expression) -> tuple[Field, ...]:
        matches = tuple(f for f in self.fields if f.relation[-len(relation) :] == relation)
        if not matches:
            raise self._unknown_relation(relation, node)
        return matches

    def has_relation(self, relation: tuple[str, ...]) -> bool:
        return any(f.relation[-len(relation) :] == relation for f in self.fields)

    def _unknown(self, name: str, relation: tuple[str, ...], node: exp.Expression) -> PlanError:
        if relation and not self.has_relation(relation):
            return self._unknown_relation(relation, node)
        return UnknownColumn(
            f"unknown column '{name}'",
            hint=did_you_mean(name, list(self._by_name), "column"),
            position=position_of(node),
            subject=None if relation else name,
        )

    def _unknown_relation(self, relation: tuple[str, ...], node: exp.Expression) -> PlanError:
        names = list(dict.fromkeys(f.relation[-1] for f in self.fields if f.relation))
        hint = did_you_mean(relation[-1], names, "table")
        return UnknownColumn(
            f"unknown table '{'.'.join(relation)}' in this query",
            hint=hint,
            position=position_of(node),
        )


def did_you_mean(name: str, known: Sequence[str], kind: str) -> str | None:
    """A hint that names what is most like `name`, or else what there is."""
    folded = {k.casefold(): k for k in reversed(known)}
    close = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    if not known:
        return f"there is no {kind} here"
    more = ", …" if len(known) > 10 else ""
    return f"there is {', '.join(known[:10])}{more}"


def check_nodes(count: int, position: Position | None) -> None:
    """PlanError where a statement has too many operations."""
    most = refused(count, "plan_nodes")
    if most is not None:
        raise PlanError(
            f"the statement has more than {most:,} operations with its views written out"
            " ('plan-nodes')",
            hint="write the result of a view into a topic, and read that",
            position=position,
        )


@dataclass(frozen=True)
class Outer:
    """The columns of the query around a subquery, and of those around that."""

    scope: Scope
    around: Outer | None = None


@dataclass(frozen=True)
class Context:
    """The context in which a statement is bound.

    `ctes` are the common table expressions in scope; `load` finds functions (None: there is no
    loader). `outer` is the scope around a subquery. `inside`: the query that is bound stands in
    another one. `of_view`: the statement is that of a view."""

    catalog: Catalog
    settings: Mapping[str, str]
    job: str = ""
    place: int = 0
    ctes: Mapping[str, Query] = field(default_factory=dict)
    load: Load | None = None
    outer: Outer | None = None
    inside: bool = False
    of_view: bool = False
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _written_out: Counter[str] = field(default_factory=Counter)

    @property
    def zone(self) -> str:
        return zone_of(self.settings.get(TIME_ZONE, UTC))

    @cached_property
    def batch(self) -> bool:
        """True in batch mode: all input is there before any result is given."""
        return is_batch(self.settings)

    def at_place(self, place: int) -> Context:
        return replace(self, place=place)

    def within(self) -> Context:
        """Returns the context of queries nested in the one that is bound."""
        return self if self.inside else replace(self, inside=True)

    def with_ctes(self, ctes: Mapping[str, Query]) -> Context:
        return replace(self, ctes={**self.ctes, **ctes})

    def write_out(self, view: LogicalPlan, node: exp.Expression) -> None:
        """Counts the operations of a view that the statement reads once more. PlanError where they
        are too many in all."""
        self._written_out["nodes"] += view.size
        check_nodes(self._written_out["nodes"], position_of(node))

    def salt(self, expressions: Iterable[Scalar]) -> str:
        """Returns what keeps a node with these expressions from being shared with equal ones.

        That is nothing, the session's time zone, or, when each evaluation gives another value
        (RAND, UUID), the node's place."""
        used = tuple(expressions)
        if not all(map(is_deterministic_per_epoch, used)):
            return f"{self.job}/{self.place}/{next(self._numbers)}"
        return f"zone {self.zone}" if self.zone != "UTC" and any(map(uses_zone, used)) else ""


@dataclass(frozen=True)
class Query:
    """A bound query: `names` are those of its columns as the text gives them, perhaps one twice;
    the plan's schema has them distinct."""

    plan: LogicalPlan
    names: tuple[str, ...]

    @cached_property
    def _scopes(self) -> dict[tuple[str, ...], Scope]:
        return {}

    def scope(self, relation: tuple[str, ...]) -> Scope:
        """The columns in reach where the query stands in FROM under the name `relation`."""
        if relation not in self._scopes:
            self._scopes[relation] = self._scope(relation)
        return self._scopes[relation]

    def _scope(self, relation: tuple[str, ...]) -> Scope:
        pairs = zip(self.names, self.plan.schema, strict=True)
        often = Counter(self.names)
        return Scope(
            tuple(
                Field(relation, name, pool.column(c.name, c.type), twice=often[name] > 1)
                for name, c in pairs
            )
        )


# Called with a call that may be an aggregate or a window's bound; None if it is neither.
Special = Callable[[exp.Expression], Scalar | None]


class Subquerying(Protocol):
    """Gives the value of an expression that has a subquery in it."""

    def value(self, node: exp.Expression, place: Place) -> Scalar: ...


@dataclass(frozen=True)
class Place:
    """The place of an expression: the columns in scope, and the handlers of aggregates and
    subqueries there (None: refused)."""

    context: Context
    scope: Scope
    clause: str
    special: Special | None = None
    subqueries: Subquerying | None = None


def distinct_names(names: Iterable[str], used: Iterable[str] = ()) -> tuple[str, ...]:
    """The names, those that were there before with a number behind them: a, a0, a1, as Flink
    does."""
    taken = set(used)
    result: list[str] = []
    # The numbers of a name only grow: those that were taken stay so.
    numbers: dict[str, Iterator[int]] = {}
    for name in names:
        fresh = name
        while fresh in taken:
            fresh = f"{name}{next(numbers.setdefault(name, itertools.count()))}"
        taken.add(fresh)
        result.append(fresh)
    return tuple(result)
