"""Helpers for tests of windows: chains of operators, input rows, output in the format of the Flink
oracle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from parser.types import INTERVAL_DAY_TIME, Schema
from planner.catalog import Watermark
from planner.logical import (
    AggregateCall,
    AssignWatermark,
    LogicalPlan,
    Tumble,
    Values,
    WindowAggregate,
    WindowAssign,
)
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.batch import MAX_WATERMARK, Batch, empty
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.expressions import evaluate
from sqlengine.operators.base import ERROR_PORT, Operator
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.operators.windows.aggregate import WindowAggregateOperator
from sqlengine.operators.windows.assign import WindowAssignOperator
from udf.aggregates.registry import bind_aggregate

TUMBLE_FOLDER = Path(__file__).parent / "tumble"


def delayed(schema: Schema, column: str, delay_ms: int) -> AssignWatermark:
    """WATERMARK FOR column AS column - INTERVAL."""
    kind = schema.type(column)
    ref: Scalar = ColumnRef(column, kind)
    expression = Call("-", (ref, Literal(delay_ms, INTERVAL_DAY_TIME)), kind) if delay_ms else ref
    return AssignWatermark(Values((), schema), Watermark(column, expression))


def aggregate(node: LogicalPlan, keys: Sequence[str], *calls: str) -> WindowAggregate:
    """Calls are texts: `SUM(i)`, `COUNT(*)`, `SUM(i) big` with a BOOLEAN column as FILTER; they
    name the columns."""
    bound = []
    for text in calls:
        call, _, where = text.partition(" ")
        function, _, argument = call.removesuffix(")").partition("(")
        types = [] if argument == "*" else [node.schema.type(argument)]
        result = bind_aggregate(function, types).result_type
        column = None if argument == "*" else argument
        bound.append(
            AggregateCall(
                text, function, column, result, types[0] if types else None, False, where or None
            )
        )
    return WindowAggregate(node, tuple(keys), tuple(bound))


@dataclass
class Chain:
    """Operators one behind the other, in one process."""

    operators: Sequence[Operator]
    context: TaskContext = field(default_factory=TaskContext)
    letters: list[Batch] = field(default_factory=list)

    def __post_init__(self) -> None:
        for i, operator in enumerate(self.operators):
            self.context.prefix = f"{i}/"
            operator.open(self.context)

    def push(self, batch: Batch) -> list[Batch]:
        batches = [batch]
        for operator in self.operators:
            output = [o for b in batches for o in operator.process(0, b)]
            self.letters += [b for port, b in output if port == ERROR_PORT]
            batches = [b for port, b in output if port != ERROR_PORT]
        return batches


def tumbling(
    schema: Schema,
    time: str,
    delay_ms: int,
    size_ms: int,
    keys: Sequence[str],
    calls: Sequence[str],
    offset_ms: int = 0,
    zone: str = "UTC",
) -> WindowAggregate:
    """WATERMARK, TUMBLE and GROUP BY over rows of `schema`."""
    assigned = WindowAssign(delayed(schema, time, delay_ms), Tumble(time, size_ms, offset_ms, zone))
    return aggregate(assigned, keys, *calls)


def operators_of(plan: WindowAggregate) -> list[Operator]:
    """The operators of a plan that `tumbling` made."""
    assigned = plan.input
    assert isinstance(assigned, WindowAssign)
    assert isinstance(assigned.input, AssignWatermark)
    return [
        WatermarkOperator(assigned.input, evaluate),
        WindowAssignOperator(assigned),
        WindowAggregateOperator(plan),
    ]


END = MAX_WATERMARK


def end_of_input(schema: Schema) -> Batch:
    return empty(schema, watermark=END)


def split(batch: Batch, size: int) -> Iterable[Batch]:
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, min(size, batch.num_rows - start))


def rows(batches: Iterable[Batch]) -> list[tuple[object, ...]]:
    """All rows of all batches as Python values; times as integers."""
    result: list[tuple[object, ...]] = []
    for batch in batches:
        plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
        result += zip(*(c.to_pylist() for c in plain), strict=True) if batch.num_rows else []
    return result
