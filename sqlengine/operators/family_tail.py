"""The conditions and projections behind a family: those of each member, for its rows alone.

Conditions that differ in the literals of comparisons and sums only are evaluated together, with the
literals as columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from planner.graph.chunked import Chunked
from planner.graph.family_members import MEMBER
from planner.graph.family_nodes import FamilyTail
from planner.graph.family_parameters import without_literals
from planner.graph.rule_sets import PlannedRule
from planner.scalar import Literal, Scalar, columns_of
from rules.ruleset import RuleSet
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import Operator, Output
from sqlengine.operators.routes import RouteTable
from sqlengine.operators.rules import CompiledRule, CompiledRules, RulesOperator
from sqlengine.operators.templates import literal_column, place
from sqlengine.state.columns import BoolArray, to_numpy
from udf.vector import LiteralValue

# The column of a parameter, by its place.
_PARAMETER: Final = "$parameter{}"


@dataclass(frozen=True)
class Shape:
    """A condition with columns in the place of literals, and the values of these for one rule."""

    condition: Scalar
    parameters: tuple[Column, ...]
    values: tuple[LiteralValue, ...]


def shape_of(condition: Scalar) -> Shape:
    """Returns the shape of a condition, which is equal for those that can be evaluated together."""
    found: list[Literal] = []
    shape = without_literals(condition, _PARAMETER.format, found)
    columns = tuple(Column(_PARAMETER.format(i), e.type) for i, e in enumerate(found))
    return Shape(shape, columns, tuple(e.value for e in found))


def compile_tail(plan: FamilyTail, before: CompiledRules | None = None) -> CompiledRules:
    """Compiles the routes of a tail, those that it does not share with one `before`. Its conditions
    are compiled by shape, when rows come."""
    known: Chunked[PlannedRule] = before.plan.rules if before else Chunked()
    compiled: Chunked[CompiledRule] = before.rules if before else Chunked()
    changed = plan.rules.difference(known)
    routes = {n: plan.rules[n].routes for n in changed if n in plan.rules}
    rules = {n: CompiledRule(None, tuple(map(place, r))) for n, r in routes.items()}
    gone = [n for n in changed if n not in plan.rules]
    return CompiledRules(plan, RuleSet.empty(), compiled.changed(rules, gone), len(rules))


class FamilyTailOperator(RulesOperator):
    """See `RulesOperator`: a rule of a member matches rows of that member. Counters:
    `conditions_together`, how often conditions of several rules were evaluated as one."""

    def __init__(self, plan: FamilyTail, previous: Operator | None = None) -> None:
        before = previous if isinstance(previous, FamilyTailOperator) else None
        super().__init__(compile_tail(plan, before.compiled if before else None))
        self._by_rule = self._shapes_by_rule(before)
        names = self._names = list(self._by_rule)
        self._numbers = np.array(sorted(plan.of), np.int64)
        places = {name: i for i, name in enumerate(names)}
        self._rules_of = _Lists([[places[n] for n in plan.of[int(m)]] for m in self._numbers])
        self._shapes = list(self._by_rule.values())
        by_digest: dict[str, int] = {}
        digests = (s.condition.digest for s in self._shapes)
        of = [by_digest.setdefault(d, len(by_digest)) for d in digests]
        self._shape_of = np.array(of, np.int64)
        # By shape, its parameters as columns by rule, made when rows come.
        self._parameters: dict[int, list[pa.Array]] = {}
        # By shape and the columns that are read, these with the parameters.
        self._joined: dict[tuple[int, Schema], Schema] = {}
        routes = [(r, i) for i, n in enumerate(names) for r in self.compiled.rules[n].routes]
        routes.sort(key=lambda route: route[0].order)
        self._table = RouteTable([route for route, _ in routes])
        routes_of: list[list[int]] = [[] for _ in names]
        for number, (_, rule) in enumerate(routes):
            routes_of[rule].append(number)
        self._routes_of = _Lists(routes_of)

    def _shapes_by_rule(self, before: FamilyTailOperator | None) -> dict[str, Shape]:
        """Returns the shape of each rule's condition; those of an operator before are the same
        where the condition is."""
        rules = self.compiled.plan.rules
        if before is None:
            return {name: shape_of(rule.predicate) for name, rule in rules.items()}
        shapes = dict(before._by_rule)
        for name in rules.difference(before.compiled.plan.rules):
            if name in rules:
                shapes[name] = shape_of(rules[name].predicate)
            else:
                del shapes[name]
        return shapes

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        rows, rules = self._pairs(batch)
        rows, rules = self._fulfilled(batch, rows, rules, output)
        if len(rows):
            at, routes = self._routes_of.pairs(rules)
            self._emit(batch, self._table, rows[at], routes, output)
        return output

    def _pairs(self, batch: Batch) -> tuple[IntArray, IntArray]:
        """Returns each row with each rule of its member."""
        members, _ = to_numpy(batch.schema.type(MEMBER), batch.column(MEMBER))
        at = np.searchsorted(self._numbers, members)
        # Rows of a member that is gone: what its state still gave.
        known = (at < len(self._numbers)) & (self._numbers[at % len(self._numbers)] == members)
        rows = np.flatnonzero(known)
        which, rules = self._rules_of.pairs(at[rows])
        return rows[which], rules

    def _fulfilled(
        self, batch: Batch, rows: IntArray, rules: IntArray, output: Output
    ) -> tuple[IntArray, IntArray]:
        """Returns those of the pairs whose condition is TRUE."""
        shapes = self._shape_of[rules]
        kept = np.zeros(len(rows), np.bool_)
        for shape in np.flatnonzero(np.bincount(shapes)).tolist():
            own = np.flatnonzero(shapes == shape)
            kept[own] = self._true(batch, shape, rows[own], rules[own], output)
        return rows[kept], rules[kept]

    def _true(
        self, batch: Batch, number: int, rows: IntArray, rules: IntArray, output: Output
    ) -> BoolArray:
        """Returns which of these pairs, whose conditions have one shape, fulfil them."""
        shape = self._shapes[rules[0]]
        read = columns_of(shape.condition)
        part = batch.take(rows, tuple(n for n in batch.schema.names if n in read))
        if shape.parameters:
            self._counters["conditions_together"] += bool((rules != rules[0]).any())
            at = pa.array(rules)
            columns = [column.take(at) for column in self._columns_of(number)]
            if (number, part.schema) not in self._joined:
                joined = Schema((*part.schema, *shape.parameters))
                self._joined[number, part.schema] = joined
            schema = self._joined[number, part.schema]
            part = part.with_columns(schema, (*part.columns, *columns))
        vector = compile_expression(shape.condition)(part)
        if vector.errors is not None:
            for i in np.flatnonzero(vector.errors.mask).tolist():
                name = self._names[rules[i]]
                predicate = self.compiled.plan.rules[name].predicate
                reasons = [vector.errors.reason(i)]
                self._fail(batch, rows[i : i + 1], name, predicate, reasons, output)
        return truth(vector, len(rows))

    def _columns_of(self, number: int) -> list[pa.Array]:
        """Returns the values of each parameter of a shape, by rule; NULL for rules of others."""
        if number not in self._parameters:
            own = [of == number for of in self._shape_of.tolist()]
            shape = self._shapes[own.index(True)]
            values = (
                [s.values[i] if mine else None for s, mine in zip(self._shapes, own, strict=True)]
                for i in range(len(shape.parameters))
            )
            kinds = (c.type.arrow for c in shape.parameters)
            self._parameters[number] = [
                literal_column(v, kind) for v, kind in zip(values, kinds, strict=True)
            ]
        return self._parameters[number]


class _Lists:
    """Lists of numbers, one for each place."""

    def __init__(self, lists: list[list[int]]) -> None:
        self._counts = np.array(list(map(len, lists)), np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._flat = np.array(list(chain.from_iterable(lists)), np.int64)
        self._single = len(lists) == len(self._flat) and bool((self._counts == 1).all())

    def pairs(self, places: IntArray) -> tuple[IntArray, IntArray]:
        """Returns each of the places (its index in the argument) with each number of its list."""
        if self._single:
            return np.arange(len(places)), self._flat[places]
        counts = self._counts[places]
        which = np.repeat(np.arange(len(places)), counts)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return which, self._flat[self._starts[places][which] + nth]
