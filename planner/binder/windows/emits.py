"""RSQLDB's EMIT: early and late results of the windows of one statement.

It is bound to Flink's settings `table.exec.emit.*`."""

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

# RSQLDB's `emit.max.value`: the allowed lateness where none is set.
_LATENESS = "1 h"


def emitting(items: Sequence[Emit], context: Context) -> Context:
    """Returns the context of a statement with EMIT, with the settings that it implies.

    BEFORE WATERMARK (the default) asks for early results of a window, AFTER WATERMARK for results
    with late rows. PlanError for an interval that is negative, or of months."""
    if not items:
        return context
    settings: dict[str, str] = {}
    for item in items:
        prefix = LATE_FIRE if item.when == "AFTER" else EARLY_FIRE
        settings |= {f"{prefix}.enabled": "true", f"{prefix}.delay": f"{_delay_ms(item)} ms"}
        if item.when == "AFTER":
            settings.setdefault(ALLOW_LATENESS, context.settings.get(ALLOW_LATENESS, _LATENESS))
    return replace(context, settings={**context.settings, **settings})


def check_emitted(items: Sequence[Emit], plan: LogicalPlan) -> None:
    """Raises PlanError if EMIT has no effect: the plan has no window of GROUP BY."""
    if items and not any(isinstance(p, EmittingAggregate) for p in _nodes(plan)):
        raise PlanError(
            "EMIT is for windows that GROUP BY makes",
            hint="write GROUP BY TUMBLE(time, INTERVAL '1' HOUR) or HOP(…), or leave EMIT out",
            position=items[0].position,
        )


def _delay_ms(item: Emit) -> int:
    """Returns WITH DELAY in ms; 0 without one."""
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


def _nodes(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yields the plan and all plans below it."""
    yield plan
    for below in plan.inputs:
        yield from _nodes(below)
