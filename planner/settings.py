"""Settings that stateful operations of a statement take on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from parser.errors import PlanError
from planner.logical import AssignWatermark, IntervalJoin, LogicalPlan, Stateful
from planner.rewrite import transform

MINI_BATCH: Final = "table.exec.mini-batch.enabled"
CDC_DUPLICATES: Final = "table.exec.source.cdc-events-duplicate"
NOT_NULL: Final = "table.exec.sink.not-null-enforcer"
SOURCE_IDLE: Final = "table.exec.source.idle-timeout"
IDLE_OPTION: Final = "scan.watermark.idle-timeout"  # of a table
WATERMARK_INTERVAL: Final = "pipeline.auto-watermark-interval"
PUSH_DOWN: Final = "watermark-push-down"  # of a table
RELOAD_OPTION: Final = "lookup.full-cache.periodic-reload.interval"  # of a table
STATE_TTL: Final = "table.exec.state.ttl"
CLEANUP: Final = "table.exec.interval-join.min-cleanup-interval"
EARLY_FIRE: Final = "table.exec.emit.early-fire"
LATE_FIRE: Final = "table.exec.emit.late-fire"
ALLOW_LATENESS: Final = "table.exec.emit.allow-lateness"
LATE_ROWS: Final = "job.late-rows"
LATE_TABLE: Final = "job.late-rows.table"
AGG_PHASES: Final = "table.optimizer.agg-phase-strategy"
RUNTIME_MODE: Final = "execution.runtime-mode"

P = TypeVar("P", bound=LogicalPlan)

_UNITS = {
    ("", "ms", "milli", "millis", "millisecond", "milliseconds"): 1,
    ("s", "sec", "secs", "second", "seconds"): 1_000,
    ("m", "min", "minute", "minutes"): 60_000,
    ("h", "hour", "hours"): 3_600_000,
    ("d", "day", "days"): 86_400_000,
}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


AGG_STRATEGIES: Final = ("AUTO", "ONE_PHASE", "TWO_PHASE")


def configure_operators(plan: P, settings: Mapping[str, str]) -> P:
    """The plan with mini-batch, the time to live of state, the cleaning of joins by time, silent
    sources and what becomes of late rows as the settings say; in batch mode none of them has a
    meaning. PlanError for a wrong value."""
    if is_batch(settings):
        return plan
    row_by_row = not flag(settings, MINI_BATCH, default=True)
    ttl_ms = duration_ms(settings, STATE_TTL)
    cleanup_ms, idle_ms = duration_ms(settings, CLEANUP), duration_ms(settings, SOURCE_IDLE)
    interval_ms = duration_ms(settings, WATERMARK_INTERVAL)
    one_of(settings, AGG_PHASES, AGG_STRATEGIES)
    tells_late = one_of(settings, LATE_ROWS, ("DROP", "DEAD-LETTER")) != "DROP"

    def set_up(node: LogicalPlan) -> LogicalPlan:
        if isinstance(node, IntervalJoin) and cleanup_ms:
            node = replace(node, cleanup_ms=cleanup_ms)
        if isinstance(node, AssignWatermark):
            times = (node.idle_ms or idle_ms, 0 if node.pushed else interval_ms)
            same = times == (node.idle_ms, node.interval_ms)
            return node if same else replace(node, idle_ms=times[0], interval_ms=times[1])
        if not isinstance(node, Stateful):
            return node
        if node.judges_lateness and any(i.changes for i in node.inputs):
            node = node.with_inputs([transform(i, _unfolded) for i in node.inputs])
        told = tells_late and node.drops_late
        by_row = (row_by_row or node.row_by_row) and node.folds
        if (by_row, node.ttl_ms or ttl_ms, told) == (node.row_by_row, node.ttl_ms, node.tells_late):
            return node
        return replace(node, row_by_row=by_row, ttl_ms=node.ttl_ms or ttl_ms, tells_late=told)

    changed = transform(plan, set_up)
    assert isinstance(changed, type(plan))
    return changed


def _unfolded(node: LogicalPlan) -> LogicalPlan:
    """Changes that a window takes by their times come one by one: what is folded has passed the
    times between."""
    if not isinstance(node, Stateful) or not node.folds or not node.changes:
        return node
    return replace(node, row_by_row=True) if any(c.type.is_rowtime for c in node.schema) else node


def late_table_name(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The parts of the name of the table that takes late rows; () where they are dropped."""
    name = settings.get(LATE_TABLE, "").strip()
    return tuple(name.split(".")) if name else ()


def is_batch(settings: Mapping[str, str]) -> bool:
    """Whether statements tell their final result alone. PlanError for a mode that there is not."""
    return one_of(settings, RUNTIME_MODE, ("STREAMING", "BATCH")) == "BATCH"


def flag(settings: Mapping[str, str], key: str, *, default: bool) -> bool:
    """A setting that is true or false."""
    value = settings.get(key, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise PlanError(f"invalid value '{settings[key]}' of '{key}'", hint="use 'true' or 'false'")
    return value == "true"


def one_of(settings: Mapping[str, str], key: str, values: tuple[str, ...]) -> str:
    """A setting that is one of `values`, whatever its case; the first where it is not set."""
    value = settings.get(key, values[0]).strip().upper()
    if value not in values:
        raise PlanError(
            f"invalid value '{settings[key]}' of '{key}'",
            hint="use " + ", ".join(map(repr, values)),
        )
    return value


def duration_ms(settings: Mapping[str, str], key: str, default: int = 0) -> int:
    """A setting such as '1 h' or '500 ms', in ms; a number alone is one of ms."""
    if key not in settings:
        return default
    match = _DURATION.fullmatch(settings[key])
    factor = (
        None
        if match is None
        else next((f for names, f in _UNITS.items() if match[2].lower() in names), None)
    )
    if match is None or factor is None:
        raise PlanError(
            f"invalid value '{settings[key]}' of '{key}'",
            hint="write a duration such as '1 h' or '500 ms'",
        )
    return int(match[1]) * factor
