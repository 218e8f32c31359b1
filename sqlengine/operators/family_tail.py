"""The conditions and projections behind a family: those of each member, for its rows alone.

Conditions that differ in the literals of comparisons and sums only are evaluated together, with the
literals as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from planner.graph.chunked import Chunked
from planner.graph.family_members import MEMBER
from planner.graph.family_nodes import FamilyTail
from planner.graph.family_parameters import without_literals
from planner.scalar import Literal, Scalar
from rules.ruleset import RuleSet
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import Output
from sqlengine.operators.rules import CompiledRule, CompiledRules, Index, RulesOperator
from sqlengine.operators.templates import literal_column, place
from sqlengine.state.columns import to_numpy
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


def compile_tail(plan: FamilyTail) -> CompiledRules:
    """Compiles the routes of a tail. Its conditions are compiled by shape, when rows come."""
    rules = {n: CompiledRule(None, tuple(map(place, r.routes))) for n, r in plan.rules.items()}
    return CompiledRules(plan, RuleSet.empty(), Chunked(rules), len(rules))


class FamilyTailOperator(RulesOperator):
    """See `RulesOperator`: a rule of a member matches rows of that member. Counters:
    `conditions_together`, how often conditions of several rules were evaluated as one."""

    def __init__(self, plan: FamilyTail) -> None:
        super().__init__(compile_tail(plan))
        self._names = list(plan.rules)
        self._numbers = np.array(sorted(plan.of), np.int64)
        places = {name: i for i, name in enumerate(self._names)}
        self._rules_of = [np.array([places[n] for n in plan.of[int(m)]]) for m in self._numbers]
        self._shapes = [shape_of(plan.rules[name].predicate) for name in self._names]
        digests = [s.condition.digest for s in self._shapes]
        self._shape_of = np.unique(digests, return_inverse=True)[1]

    def _match(self, batch: Batch, output: Output) -> dict[str, Index]:
        rows, rules = self._pairs(batch)
        matched: list[tuple[IntArray, IntArray]] = []
        for shape in np.unique(self._shape_of[rules]):
            own = np.flatnonzero(self._shape_of[rules] == shape)
            kept = self._true(batch, rows[own], rules[own], output)
            matched.append((rows[own][kept], rules[own][kept]))
        found = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in matched)])
        if not len(found):
            return {}
        of = np.concatenate([rules for _, rules in matched])
        order = np.lexsort((found, of))
        numbers, starts = np.unique(of[order], return_index=True)
        parts = np.split(found[order], starts[1:])
        return {self._names[n]: part for n, part in zip(numbers, parts, strict=True)}

    def _pairs(self, batch: Batch) -> tuple[IntArray, IntArray]:
        """Returns each row with each rule of its member."""
        members, _ = to_numpy(batch.schema.type(MEMBER), batch.column(MEMBER))
        at = np.searchsorted(self._numbers, members)
        # Rows of a member that is gone: what its state still gave.
        known = (at < len(self._numbers)) & (self._numbers[at % len(self._numbers)] == members)
        rows = np.flatnonzero(known)
        of = [self._rules_of[i] for i in at[rows]]
        counts = np.fromiter(map(len, of), np.int64, len(of))
        return np.repeat(rows, counts), np.concatenate([np.empty(0, np.int64), *of])

    def _true(self, batch: Batch, rows: IntArray, rules: IntArray, output: Output) -> IntArray:
        """Returns which of these pairs, whose conditions have one shape, fulfil them."""
        shape = self._shapes[rules[0]]
        part = batch.take(rows)
        if shape.parameters:
            present, which = np.unique(rules, return_inverse=True)
            self._counters["conditions_together"] += len(present) > 1
            columns = [c.take(pa.array(which)) for c in self._parameters(shape, present.tolist())]
            schema = Schema((*part.schema, *shape.parameters))
            part = part.with_columns(schema, (*part.columns, *columns))
        vector = compile_expression(shape.condition)(part)
        if vector.errors is not None:
            bad = np.flatnonzero(vector.errors.mask)
            for i in bad.tolist():
                name = self._names[rules[i]]
                predicate = self.compiled.plan.rules[name].predicate
                reasons = [vector.errors.reason(i)]
                self._fail(batch, rows[i : i + 1], name, predicate, reasons, output)
        return np.flatnonzero(truth(vector, len(rows)))

    def _parameters(self, shape: Shape, rules: Sequence[int]) -> list[pa.Array]:
        """Returns the values of each parameter for these rules."""
        values = zip(*(self._shapes[rule].values for rule in rules), strict=True)
        kinds = (c.type.arrow for c in shape.parameters)
        return [literal_column(v, kind) for v, kind in zip(values, kinds, strict=True)]
