"""RSQLDB's EMIT: when the windows of one statement are told. It stands for Flink's settings
`table.exec.emit.*`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from parser.dialect import position_of
from parser.errors import PlanError
from parser.statements import Emit
from parser.types import Root
from planner.binder.expressions.literals import interval
from planner.binder.scope import Context
from planner.logical import EmittingAggregate, LogicalPlan
from planner.settings import ALLOW_LATENESS, EARLY_FIRE, LATE_FIRE

# RSQLDB's `emit.max.value`: how long late rows count where nothing is set.
_LATENESS = "1 h"


def emitting(items: Sequence[Emit], context: Context) -> Context:
    """The context of a statement with EMIT: BEFORE WATERMARK (or neither) is an early result of a
    window, AFTER WATERMARK one for its late rows. PlanError for an interval that is negative, or of
    months."""
    if not items:
        return context
    found: dict[str, str] = {}
    for item in items:
        prefix = LATE_FIRE if item.when == "AFTER" else EARLY_FIRE
        found |= {f"{prefix}.enabled": "true", f"{prefix}.delay": f"{_delay_ms(item)} ms"}
        if item.when == "AFTER":
            found.setdefault(ALLOW_LATENESS, context.settings.get(ALLOW_LATENESS, _LATENESS))
    return replace(context, settings={**context.settings, **found})


def check_emitted(items: Sequence[Emit], plan: LogicalPlan) -> None:
    """PlanError where EMIT would say nothing."""
    if items and not any(isinstance(p, EmittingAggregate) for p in _all(plan)):
        raise PlanError(
            "EMIT is for windows that GROUP BY makes",
            hint="write GROUP BY TUMBLE(time, INTERVAL '1' HOUR) or HOP(…), or leave EMIT out",
            position=items[0].position,
        )


def _delay_ms(item: Emit) -> int:
    if item.delay is None:
        return 0
    delay = interval(item.delay)
    if (
        delay.type.root is not Root.INTERVAL_DAY_TIME
        or not isinstance(delay.value, int)
        or delay.value < 0
    ):
        raise PlanError(
            f"EMIT wants an interval of days to seconds, but '{delay}' is {delay.type}",
            hint="write WITH DELAY '1' MINUTE",
            position=position_of(item.delay) or item.position,
        )
    return delay.value


def _all(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    yield plan
    for below in plan.inputs:
        yield from _all(below)
