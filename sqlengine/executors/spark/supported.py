"""Refuses by name what tasks of Spark cannot run yet: the embedded executor runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from parser.errors import UnsupportedError
from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from planner.logical import AssignWatermark, Sink
from planner.settings import IDLE_OPTION, WATERMARK_INTERVAL
from sqlengine.executors.spark.plan import CutPlan, cut_plan

_ELSEWHERE: Final = "the embedded executor runs it"


def check_statements(sinks: Sequence[Sink]) -> None:
    """Raises UnsupportedError for statements of a job that tasks cannot run."""
    check_watermarks(cut_plan(lower(merge(Graph(), {"": sinks}))))


def check_watermarks(cut: CutPlan) -> None:
    """Raises UnsupportedError for watermarks that go by the clock, which only matters for unbounded
    input: those of an interval, and rows that come together with different idle timeouts."""
    nodes = (node for fragment in cut.sources.values() for node in fragment.nodes)
    for plan in (node.plan for node in nodes):
        if isinstance(plan, AssignWatermark) and plan.interval_ms:
            raise UnsupportedError(
                "watermarks at intervals are not supported on Spark yet, where input has no end",
                detail=f"watermark {plan.label}",
                hint=f"leave out '{WATERMARK_INTERVAL}': {_ELSEWHERE} with it",
            )
    if any(exchange.idle_ms < 0 for exchange in cut.exchange.values()):
        raise UnsupportedError(
            "rows of tables with different idle timeouts cannot come together on Spark yet",
            hint=f"write the same '{IDLE_OPTION}' for each: {_ELSEWHERE} with different ones",
        )
