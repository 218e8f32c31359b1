"""Templates: projections that differ in their literals only, computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakValueDictionary
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import Column, Schema
from planner.graph.rule_sets import Route
from planner.scalar import Literal, columns_of, is_deterministic_per_epoch
from sqlengine.batch import Batch, replaced
from sqlengine.expressions import Evaluator, compile_column
from udf.vector import Errors, LiteralValue, merge_errors

Index: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Template:
    """The common part of all routes of one `shape`.

    `items[i]` is an evaluator over the input's columns `reads`, or the type of a literal that
    differs by route.
    """

    shape: str
    target: str
    schema: Schema
    items: tuple[Evaluator | pa.DataType, ...]
    reads: tuple[str, ...]
    seed: int

    def build(
        self, batch: Batch, rows: Index, literals: Sequence[pa.Array], which: Index
    ) -> tuple[Batch, Errors | None]:
        """Returns one output row for each pair of an input row and a route, given by its place in
        `literals`, which are columns of all routes."""
        part = batch.take(rows, self.reads)
        part = replaced(part, seed=part.seed ^ self.seed)
        columns, errors = [], []
        own = iter(literals)
        index = pa.array(which) if literals else None
        for item, field in zip(self.items, self.schema.arrow, strict=True):
            if isinstance(item, pa.DataType):
                columns.append(next(own).take(index))
                continue
            vector = item(part)
            errors.append(vector.errors)
            array = vector.array(part.num_rows)
            columns.append(
                array if array.type.equals(field.type) else array.cast(field.type, safe=False)
            )
        return part.with_columns(self.schema, columns), merge_errors(errors)


@dataclass(frozen=True, eq=False)
class PlacedRoute:
    """A route with its template and the literals that it puts there.

    The output rows of an event are in the order of `order`.
    """

    route: Route
    template: Template
    literals: tuple[LiteralValue, ...]
    order: tuple[str, int, str]


def place(route: Route) -> PlacedRoute:
    """Returns the route with its template, which is one object for all routes of a shape."""
    shape = _shape(route)
    template = _templates.get(shape)
    if template is None:
        template = _templates[shape] = _template(shape, route)
    literals = tuple(e.value for _, e in route.items if isinstance(e, Literal))
    return PlacedRoute(route, template, literals, (route.job, route.place, route.rule))


# A template lives as long as a route refers to it.
_templates: WeakValueDictionary[str, Template] = WeakValueDictionary()


def _shape(route: Route) -> str:
    """Returns a key that is equal for routes whose rows can be built together."""
    parts = [route.target]
    for name, e in route.items:
        parts += (name, f"literal {e.type.arrow}" if isinstance(e, Literal) else e.digest)
        if not is_deterministic_per_epoch(e):
            parts.append(f"{route.job}/{route.place}")  # random values of its own
    return "\0".join(parts)


def _template(shape: str, route: Route) -> Template:
    items = tuple(
        e.type.arrow if isinstance(e, Literal) else compile_column(e, n) for n, e in route.items
    )
    reads = tuple(sorted(set().union(*(columns_of(e) for _, e in route.items))))
    schema = Schema(tuple(Column(name, e.type) for name, e in route.items))
    return Template(shape, route.target, schema, items, reads, crc32(shape.encode()))


def literal_columns(routes: Sequence[PlacedRoute]) -> list[pa.Array]:
    """Returns the literals of routes of one template, each as a column by route."""
    kinds = (item for item in routes[0].template.items if isinstance(item, pa.DataType))
    values = zip(*(r.literals for r in routes), strict=True)
    return [literal_column(v, kind) for v, kind in zip(values, kinds, strict=True)]


def literal_column(values: Sequence[LiteralValue], kind: pa.DataType) -> pa.Array:
    """Returns literals of one type as a column; integers are dates and times in their Arrow
    unit."""
    if not pa.types.is_temporal(kind):
        return pa.array(values, kind)
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
