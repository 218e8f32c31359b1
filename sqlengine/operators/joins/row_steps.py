"""The operations over a table that rows are looked up in, each of which makes a row of a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from parser.types import Schema
from planner.logical import AssignWatermark, Filter, LogicalPlan, Project, Scan
from planner.scalar import find_position
from sqlengine.batch import Batch
from sqlengine.expressions import compile_expression, truth
from sqlengine.formats.registry import decoder_for, value_metadata, with_any_times
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.project import ProjectOperator
from sqlengine.operators.scan import ScanOperator
from sqlengine.state.table import KeyedTable


class RowStep(Protocol):
    """An operator without state."""

    def process(self, port: int, batch: Batch) -> Output: ...


class _Context:
    """The context of operators that have no table."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        raise NotImplementedError

    def check_step(self) -> None: ...

    def charge(self, rows: Mapping[str, int]) -> None: ...


def row_steps(plan: LogicalPlan, *, any_times: bool) -> list[RowStep]:
    """Returns the operations of a plan in their order, the scan first."""
    steps = [] if isinstance(plan, Scan) else row_steps(*plan.inputs, any_times=any_times)
    match plan:
        case Scan():
            table = with_any_times(plan.table) if any_times else plan.table
            decoder = decoder_for(table, table.physical, value_metadata(table))
            scan = ScanOperator(table, plan.schema.names, decoder)
            scan.open(_Context())
            steps.append(scan)
        case Project():
            project = ProjectOperator(plan, plan.schema.names)
            project.open(_Context())
            steps.append(project)
        case Filter():
            steps.append(_FilterStep(plan))
        case AssignWatermark():
            pass  # there is no time in a version
        case _:
            raise AssertionError(f"{type(plan).__name__} over a table of look-ups")
    return steps


class _FilterStep:
    """Passes the rows for which the condition is TRUE."""

    def __init__(self, node: Filter) -> None:
        self._predicate = node.predicate
        self._evaluate = compile_expression(node.predicate)

    def process(self, port: int, batch: Batch) -> Output:
        vector = self._evaluate(batch)
        output: Output = [(0, batch.take(np.flatnonzero(truth(vector, batch.num_rows))))]
        if vector.errors is not None:
            bad = np.flatnonzero(vector.errors.mask)
            letters = dead_letters(
                batch.take(bad),
                place=str(find_position(self._predicate) or ""),
                subject=str(self._predicate),
                reason=[vector.errors.reason(int(i)) for i in bad],
            )
            output.insert(0, (ERROR_PORT, letters))
        return output
