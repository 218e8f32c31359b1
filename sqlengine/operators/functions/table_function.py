"""LATERAL TABLE: the rows that a table function returns for each input row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from parser.errors import PlanError
from parser.types import Schema
from planner.logical import TableFunction
from planner.scalar import columns_of, find_position
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import ERROR_PORT, NO_TICK, Context, Rest, Stream
from sqlengine.operators.bounded import rows_at_once, taken
from sqlengine.operators.dead_letters import dead_letters
from udf.tables import Expanded, lookup_table
from udf.vector import BoolArray, Errors, merge_errors


class TableFunctionOperator:
    """Joins each row with the rows that the table function returns for it.

    Emits the columns that are read downstream (`columns`). Stateless; Flink's StreamExecCorrelate.
    A row for which the function fails leaves by the error port and has no other output. The rows of
    one input row are in the order in which the function returned them.
    """

    def __init__(self, node: TableFunction, columns: Sequence[str]) -> None:
        bind = lookup_table(node.call.function)
        if bind is None:
            raise PlanError(
                f"unknown table function '{node.call.function}'", position=node.call.position
            )
        self.schema = node.schema.select(tuple(columns))
        self._node = node
        self._arguments = [compile_expression(a) for a in node.call.args]
        self._kernel = bind([a.type for a in node.call.args])
        self._condition = None if node.condition is None else compile_expression(node.condition)
        read = frozenset[str]() if node.condition is None else columns_of(node.condition)
        self._condition_schema = Schema(
            tuple(c for c in (*node.input.schema, *node.columns) if c.name in read)
        )
        made = {c.name: i for i, c in enumerate(node.columns)}
        self._result_places = made
        self._result_of_column = [made.get(name) for name in columns]

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Stream:
        if not batch.num_rows:
            return [(0, replace(batch.tick(self.schema), origin=batch.origin))]
        arguments = [a(batch) for a in self._arguments]
        # The function does not see rows whose arguments failed; what failed there stands first.
        # Errors of arguments come first in the merge: they are the reason where both fail.
        expanded = self._kernel(arguments, batch.num_rows)
        expanded, failed = self._filtered(batch, expanded)
        errors = merge_errors([*(a.errors for a in arguments), expanded.errors, failed])
        rows, index = self._rows(expanded, batch.num_rows, errors)
        result = self._results(batch, expanded, rows, index)
        return (
            result if errors is None else chain([(ERROR_PORT, self._failed(batch, errors))], result)
        )

    def _filtered(self, batch: Batch, expanded: Expanded) -> tuple[Expanded, Errors | None]:
        """Returns the rows for which the condition is TRUE, and the errors of input rows for which
        it fails."""
        if self._condition is None:
            return expanded, None
        count = len(expanded.rows)
        taken = batch.take(
            expanded.rows, [n for n in self._condition_schema.names if n not in self._result_places]
        )
        columns = [
            taken.column(c.name)
            if c.name not in self._result_places
            else _typed(expanded.columns[self._result_places[c.name]], c.type.arrow)
            for c in self._condition_schema
        ]
        condition = self._condition(
            replace(taken, schema=self._condition_schema, columns=tuple(columns), num_rows=count)
        )
        chosen = np.flatnonzero(truth(condition, count))
        index = pa.array(chosen)
        narrowed = replace(
            expanded,
            rows=expanded.rows[chosen],
            columns=tuple(c.take(index) for c in expanded.columns),
        )
        return narrowed, None if condition.errors is None else _by_row(
            condition.errors, expanded.rows, batch.num_rows
        )

    def _rows(
        self, expanded: Expanded, count: int, errors: Errors | None
    ) -> tuple[IntArray, IntArray]:
        """Returns for each output row its input row, and its place among the function's rows (-1:
        none, of an outer join)."""
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

    def _results(self, batch: Batch, expanded: Expanded, rows: IntArray, index: IntArray) -> Stream:
        """Yields the output in slices: a row is copied for each element of its arrays."""
        sizes = (
            rows_at_once(batch.columns, batch.num_rows),
            rows_at_once(expanded.columns, len(expanded.rows)),
        )
        for part, at in taken(batch, rows, min(sizes)):
            places = pa.array(index[at], mask=index[at] < 0)
            columns = [
                part.column(c.name)
                if made is None
                else _typed(expanded.columns[made].take(places), c.type.arrow)
                for c, made in zip(self.schema, self._result_of_column, strict=True)
            ]
            yield 0, part.with_columns(self.schema, columns)

    def _failed(self, batch: Batch, errors: Errors) -> Batch:
        rows = np.flatnonzero(errors.mask)
        self._counters["rows_in_error"] += len(rows)
        place = find_position(self._node.call)
        return dead_letters(
            batch.take(rows),
            place=str(place) if place else "",
            subject=str(self._node.call),
            reason=[errors.reason(int(r)) for r in rows],
        )

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...


def _by_row(errors: Errors, rows: IntArray, count: int) -> Errors:
    """Maps errors of the function's rows to the input rows."""
    mask, codes = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    at = np.flatnonzero(errors.mask)[::-1]  # the first stays
    mask[rows[at]], codes[rows[at]] = True, errors.codes[at]
    return Errors(mask, codes, errors.reasons)


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind, safe=False)
