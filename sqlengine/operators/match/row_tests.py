"""Tests whether a row may be taken by an item of the pattern."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.logical import MatchRecognize
from planner.scalar import Scalar, columns_of
from sqlengine.batch import Batch
from sqlengine.operators.match.conditions import (
    Evaluate,
    RowError,
    RowExpressions,
    compile_condition,
    python_values,
    truths,
)
from sqlengine.operators.match.heap import Part
from sqlengine.operators.match.runs import Run
from sqlengine.operators.match.values import Counts, Reader, reader
from udf.vector import Errors

# Reports a row for which the condition of an item failed: the row, the item, the reason.
Fail = Callable[[int, int, str], None]


class Tests:
    """The conditions of a node.

    Conditions over the row alone are evaluated for all rows of a batch at once (`load`); others for
    one row and one match, which `select` and `test_of` set. Implements `values.Past`.
    """

    def __init__(self, node: MatchRecognize, starts: set[int], fail: Fail) -> None:
        self._fail = fail
        self._starts = starts
        history = frozenset(v.name for v in node.history)
        self.columns = tuple(dict.fromkeys(v.column for v in node.history if v.column is not None))
        self._types = [node.input.schema.type(c) for c in self.columns]
        self._readers: dict[str, Reader] = {
            v.name: reader(v, node.pattern, self.columns) for v in node.history
        }
        self._facts = RowExpressions({}, {}, {})
        conditions = dict(node.conditions)
        self._plain: dict[int, Scalar] = {}
        self._with_history: dict[int, Evaluate] = {}
        for number, item in enumerate(node.pattern):
            condition = conditions.get(item.variable)
            if condition is not None and columns_of(condition) & history:
                self._with_history[number] = compile_condition(condition, history, self._facts)
            elif condition is not None:
                self._plain[number] = condition
        self.truths: list[list[int] | None] = [None] * len(node.pattern)
        self._errors: dict[int, Errors | None] = {}
        self._results: dict[int, bool] = {}
        self.counts: Counts = ()
        self.item = 0

    def load(self, batch: Batch) -> None:
        """Evaluates the rows of the next batch."""
        for number, condition in self._plain.items():
            self.truths[number], self._errors[number] = truths(condition, batch)
        self._facts.load(batch)
        columns = (
            python_values(t, batch.column(c))
            for c, t in zip(self.columns, self._types, strict=True)
        )
        self._values: list[tuple[object, ...]] = (
            list(zip(*columns, strict=True)) if self.columns else []
        )
        self._next_start_of = self._next_starts(batch.num_rows)

    def _next_starts(self, count: int) -> list[int] | None:
        """Returns by row the first row from there on that may begin a match; None if every
        row may."""
        known = [self.truths[i] for i in self._starts]
        if any(k is None for k in known):
            return None
        # A condition that fails (2) counts as possible: the error must be reported by `test`.
        may = np.logical_or.reduce([np.asarray(k) != 0 for k in known])
        rows = np.where(may, np.arange(count), count)
        following: list[int] = np.minimum.accumulate(rows[::-1])[::-1].tolist()
        return following

    def next_start(self, row: int) -> int:
        """Returns the first row from `row` on that may begin a match."""
        return row if self._next_start_of is None else self._next_start_of[row]

    def values(self, row: int) -> tuple[object, ...]:
        """Returns the columns of the row that later conditions read."""
        return self._values[row] if self.columns else ()

    def select(self, run: Run, row: int) -> None:
        """Sets the row to be tested."""
        self._run, self._row = run, row

    def test_of(self, part: Part) -> Callable[[int], bool]:
        """Returns the test of the selected row for one match."""
        self._begin, self.counts = part[0], part[2]
        # Results of conditions with history are cached for one row and one match.
        if self._results:
            self._results = {}
        return self.test

    def test(self, item: int) -> bool:
        """Evaluates the condition of an item; errors are reported and count as FALSE."""
        truth = self.truths[item]
        if truth is not None:
            result = truth[self._row]
            return result == 1 or (result == 2 and self._failed(item))
        condition = self._with_history.get(item)
        if condition is None:
            return True
        result_so_far = self._results.get(item)
        if result_so_far is None:
            result_so_far = self._results[item] = self._evaluate(item, condition)
        return result_so_far

    def _failed(self, item: int) -> bool:
        errors = self._errors[item]
        assert errors is not None
        self._fail(self._row, item, errors.reason(self._row))
        return False

    def _evaluate(self, item: int, condition: Evaluate) -> bool:
        self.item = item
        try:
            return condition(self._row, self._read) is True
        except RowError as error:
            self._fail(self._row, item, str(error))
            return False

    def _read(self, name: str) -> object:
        return self._readers[name](self)

    def stored(self, number: int, column: int) -> object:
        return self._run.values[self._begin - self._run.base + number][column]

    def current(self, column: int) -> object:
        return self._values[self._row][column]
