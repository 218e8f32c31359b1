"""For each row, the rows that a table function gives for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.errors import PlanError
from parser.types import Schema
from planner.logical import TableFunction
from planner.scalar import columns_of, find_position
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters
from udf.tables import Expanded, lookup_table
from udf.vector import BoolArray, Errors, merge_errors


class TableFunctionOperator:
    """Gives the columns that somebody reads (`columns`). A row for which the function fails leaves
    by the error port and has no other output. Rows of one input row come in the order in which the
    function gave them."""

    def __init__(self, node: TableFunction, columns: Sequence[str], owner: str = "") -> None:
        bind = lookup_table(node.call.function)
        if bind is None:
            raise PlanError(
                f"unknown table function '{node.call.function}'", position=node.call.position
            )
        self.schema = node.schema.select(tuple(columns))
        self._node = node
        self._owner = owner
        self._arguments = [compile_expression(a) for a in node.call.args]
        self._kernel = bind([a.type for a in node.call.args])
        self._condition = None if node.condition is None else compile_expression(node.condition)
        read = frozenset[str]() if node.condition is None else columns_of(node.condition)
        self._seen = Schema(tuple(c for c in (*node.input.schema, *node.columns) if c.name in read))
        made = {c.name: i for i, c in enumerate(node.columns)}
        self._places = made
        self._made = [made.get(name) for name in columns]

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return [(0, replace(batch.tick(self.schema), origin=batch.origin))]
        arguments = [a(batch) for a in self._arguments]
        # The function does not see rows whose arguments failed; what failed there stands first.
        expanded = self._kernel(arguments, batch.num_rows)
        expanded, failed = self._chosen(batch, expanded)
        errors = merge_errors([*(a.errors for a in arguments), expanded.errors, failed])
        rows, index = self._rows(expanded, batch.num_rows, errors)
        result = [(0, self._result(batch, expanded, rows, index))]
        return result if errors is None else [(ERROR_PORT, self._failed(batch, errors)), *result]

    def _chosen(self, batch: Batch, expanded: Expanded) -> tuple[Expanded, Errors | None]:
        """Those for which the condition is TRUE, and the errors of input rows for which it has no
        value."""
        if self._condition is None:
            return expanded, None
        count = len(expanded.rows)
        taken = batch.take(expanded.rows, [n for n in self._seen.names if n not in self._places])
        columns = [
            taken.column(c.name)
            if c.name not in self._places
            else _typed(expanded.columns[self._places[c.name]], c.type.arrow)
            for c in self._seen
        ]
        found = self._condition(
            replace(taken, schema=self._seen, columns=tuple(columns), num_rows=count)
        )
        chosen = np.flatnonzero(truth(found, count))
        kept = pa.array(chosen)
        narrowed = replace(
            expanded,
            rows=expanded.rows[chosen],
            columns=tuple(c.take(kept) for c in expanded.columns),
        )
        return narrowed, None if found.errors is None else _by_row(
            found.errors, expanded.rows, batch.num_rows
        )

    def _rows(
        self, expanded: Expanded, count: int, errors: Errors | None
    ) -> tuple[IntArray, IntArray]:
        """For each output row its input row, and its place in what the function gave (-1: nothing,
        in an outer join)."""
        rows, index = expanded.rows, np.arange(len(expanded.rows))
        if errors is not None and len(rows):
            good = ~errors.mask[rows]
            rows, index = rows[good], index[good]
        if not self._node.outer:
            return rows, index
        alone: BoolArray = np.ones(count, np.bool_)
        alone[rows] = False
        if errors is not None:
            alone &= ~errors.mask
        rows = np.concatenate([rows, np.flatnonzero(alone)])
        index = np.concatenate([index, np.full(len(rows) - len(index), -1)])
        order = np.argsort(rows, kind="stable")
        return rows[order], index[order]

    def _result(self, batch: Batch, expanded: Expanded, rows: IntArray, index: IntArray) -> Batch:
        taken = batch.take(rows)
        places = pa.array(index, mask=index < 0)
        columns = [
            taken.column(c.name)
            if made is None
            else _typed(expanded.columns[made].take(places), c.type.arrow)
            for c, made in zip(self.schema, self._made, strict=True)
        ]
        return replace(taken.with_columns(self.schema, columns), watermark=batch.watermark)

    def _failed(self, batch: Batch, errors: Errors) -> Batch:
        rows = np.flatnonzero(errors.mask)
        self._counters["rows_in_error"] += len(rows)
        place = find_position(self._node.call)
        return dead_letters(
            batch.take(rows),
            owner=self._owner,
            place=str(place) if place else "",
            subject=str(self._node.call),
            reason=[errors.reason(int(r)) for r in rows],
        )

    def close(self) -> None: ...


def _by_row(errors: Errors, rows: IntArray, count: int) -> Errors:
    """Errors of what the function gave as those of the rows that it gave it for."""
    mask, codes = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    at = np.flatnonzero(errors.mask)[::-1]  # the first stays
    mask[rows[at]], codes[rows[at]] = True, errors.codes[at]
    return Errors(mask, codes, errors.reasons)


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind, safe=False)
