"""Adds the parameters of its member to each row of a family."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.graph.family_parameters import WithParameters
from sqlengine.batch import Batch
from sqlengine.operators.base import NO_TICK, Context, Output, Rest
from sqlengine.operators.templates import literal_column
from sqlengine.state.columns import to_numpy


class WithParametersOperator:
    """Looks the parameters of each row up by the number of its member.

    Stateless; Flink has no counterpart.
    """

    def __init__(self, node: WithParameters) -> None:
        self._number, self._columns = node.number, node.columns
        members = sorted(node.values)
        self._members = np.array(members, np.int64)
        values = zip(*(tuple(e.value for e in node.values[m]) for m in members), strict=True)
        kinds = (c.type.arrow for c in node.columns)
        self._values = [literal_column(v, kind) for v, kind in zip(values, kinds, strict=True)]

        self._schemas: dict[Schema, Schema] = {}

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        numbers, _ = to_numpy(batch.schema.type(self._number), batch.column(self._number))
        at = pa.array(np.searchsorted(self._members, numbers))
        if batch.schema not in self._schemas:
            self._schemas[batch.schema] = Schema((*batch.schema, *self._columns))
        columns = (*batch.columns, *(v.take(at) for v in self._values))
        return [(0, batch.with_columns(self._schemas[batch.schema], columns))]

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...
