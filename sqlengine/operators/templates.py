"""Projections that differ in their literals only, computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import Column, Schema
from planner.physical import Route, RulesPlan
from planner.scalar import Literal, Scalar, columns_of
from sqlengine.batch import Batch
from sqlengine.expressions import Evaluator, compile_expression
from udf.vector import Errors, merge_errors


@dataclass(frozen=True)
class Template:
    """`items[i]` is either an evaluator over the input's columns `reads`, or the literals of that place by slot."""

    target: int
    schema: Schema
    items: tuple[Evaluator | pa.Array, ...]
    reads: tuple[str, ...]
    seed: int

    def build(
        self, batch: Batch, rows: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
    ) -> tuple[Batch, Errors | None]:
        """One output row per pair of an input row and the slot of the route that wants it."""
        part = batch.take(rows, self.reads)
        part = replace(part, seed=part.seed ^ self.seed)
        columns, errors = [], []
        index = pa.array(slots)
        for item, field in zip(self.items, self.schema.arrow, strict=True):
            if isinstance(item, pa.Array):
                columns.append(item.take(index))
                continue
            vector = item(part)
            errors.append(vector.errors)
            array = vector.array(part.num_rows)
            columns.append(array if array.type.equals(field.type) else array.cast(field.type, safe=False))
        return part.with_columns(self.schema, columns), merge_errors(errors)


def build_templates(
    plan: RulesPlan,
) -> tuple[tuple[Template, ...], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The templates, and for each route its template and its slot there."""
    members: dict[tuple[str, ...], list[int]] = {}
    for number, route in enumerate(plan.routes):
        members.setdefault(_shape(route), []).append(number)
    template_of = np.zeros(len(plan.routes), np.int64)
    slot_of = np.zeros(len(plan.routes), np.int64)
    templates = []
    for t, numbers in enumerate(members.values()):
        template_of[numbers] = t
        slot_of[numbers] = np.arange(len(numbers))
        templates.append(_template(plan, [plan.routes[n] for n in numbers]))
    return tuple(templates), template_of, slot_of


def _shape(route: Route) -> tuple[str, ...]:
    """Equal for routes whose rows can be built together."""
    parts = [route.target]
    for name, e in route.items:
        parts += (name, f"literal {e.type.arrow}" if isinstance(e, Literal) else e.digest)
    return tuple(parts)


def _column(literals: Sequence[Scalar], kind: pa.DataType) -> pa.Array:
    """Literals of one type as a column; integers stand for dates and times in their Arrow unit."""
    values = [e.value for e in literals if isinstance(e, Literal)]
    if not pa.types.is_temporal(kind):
        return pa.array(values, kind)
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def _template(plan: RulesPlan, routes: Sequence[Route]) -> Template:
    first = routes[0]
    items: list[Evaluator | pa.Array] = []
    for i, (_, e) in enumerate(first.items):
        if isinstance(e, Literal):
            items.append(_column([r.items[i][1] for r in routes], e.type.arrow))
        else:
            items.append(compile_expression(e))
    reads = tuple(sorted(set().union(*(columns_of(e) for _, e in first.items))))
    schema = Schema(tuple(Column(name, e.type) for name, e in first.items))
    return Template(
        plan.targets.index(first.target), schema, tuple(items), reads, crc32("\0".join(_shape(first)).encode())
    )
