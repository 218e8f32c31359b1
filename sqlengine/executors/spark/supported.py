"""Refuses by name what tasks of Spark cannot run yet: the embedded executor runs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from parser.errors import UnsupportedError
from planner.graph.distribution import functions_of
from planner.graph.physical import PhysicalNode
from planner.logical import AssignWatermark, Scan
from planner.settings import IDLE_OPTION, RELOAD_OPTION, SOURCE_IDLE, WATERMARK_INTERVAL
from udf.user import is_user

_ELSEWHERE: Final = "the embedded executor runs it"


def check_supported(nodes: Iterable[PhysicalNode]) -> None:
    """Raises UnsupportedError for functions of users, whose workers belong to one process, and for
    lookup tables that are reloaded."""
    for node in nodes:
        called = next((name for name in sorted(functions_of(node.plan)) if is_user(name)), None)
        if called is not None:
            raise UnsupportedError(
                f"the function {called.partition('@')[0]} of a user cannot be called on Spark yet",
                hint=_ELSEWHERE,
            )
        if isinstance(node.plan, Scan) and node.plan.reloaded:
            raise UnsupportedError(
                f"table '{node.plan.table.display}' cannot be read again on Spark",
                hint=f"leave out '{RELOAD_OPTION}': {_ELSEWHERE} with it",
            )


def check_watermarks(nodes: Iterable[PhysicalNode]) -> None:
    """Raises UnsupportedError for watermarks that go by the clock, which only matters for unbounded
    input."""
    for node in nodes:
        plan = node.plan
        if isinstance(plan, AssignWatermark) and (plan.idle_ms or plan.interval_ms):
            raise UnsupportedError(
                "watermarks that go by the clock are not supported on Spark yet, where input has"
                " no end",
                detail=f"watermark {plan.label}",
                hint=(
                    f"leave out '{IDLE_OPTION}', '{SOURCE_IDLE}' and '{WATERMARK_INTERVAL}':"
                    f" {_ELSEWHERE} with them"
                ),
            )
