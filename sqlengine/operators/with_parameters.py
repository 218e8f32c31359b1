"""Adds the parameters of its member to each row of a family."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.graph.family_parameters import WithParameters
from sqlengine.batch import Batch
from sqlengine.operators.base import NO_TICK, Context, Operator, Output, Rest
from sqlengine.operators.templates import literal_column
from sqlengine.state.columns import to_numpy


class WithParametersOperator:
    """Looks the parameters of each row up by the number of its member.

    Stateless; Flink has no counterpart.
    """

    def __init__(self, node: WithParameters, previous: Operator | None = None) -> None:
        self._number, self._columns, self._values = node.number, node.columns, node.values
        before = previous if isinstance(previous, WithParametersOperator) else None
        if before is None or before._columns != node.columns:
            before = None
        old = before._values if before else {}
        new = [m for m, values in node.values.items() if old.get(m) is not values]
        literals = zip(*(tuple(e.value for e in node.values[m]) for m in new), strict=True)
        kinds = (c.type.arrow for c in node.columns)
        self._literals: list[pa.Array]
        self._members = np.array(new, np.int64)
        if new:
            made = [literal_column(v, k) for v, k in zip(literals, kinds, strict=True)]
        else:
            made = [pa.array([], k) for k in kinds]
        if before:
            stay = np.isin(before._members, list(node.values.keys() - set(new)))
            kept = pa.array(np.flatnonzero(stay))
            self._members = np.concatenate([before._members[stay], self._members])
            columns = zip(before._literals, made, strict=True)
            made = [pa.concat_arrays([a.take(kept), b]) for a, b in columns]
        order = np.argsort(self._members)
        self._members = self._members[order]
        self._literals = [column.take(pa.array(order)) for column in made]
        self._schemas: dict[Schema, Schema] = {}

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        numbers, _ = to_numpy(batch.schema.type(self._number), batch.column(self._number))
        at = pa.array(np.searchsorted(self._members, numbers))
        if batch.schema not in self._schemas:
            self._schemas[batch.schema] = Schema((*batch.schema, *self._columns))
        columns = (*batch.columns, *(v.take(at) for v in self._literals))
        return [(0, batch.with_columns(self._schemas[batch.schema], columns))]

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...
