"""The keys of settings that the planner reads, and their values: SET 'key' = 'value'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from parser.durations import duration_in
from parser.errors import PlanError

MINI_BATCH: Final = "table.exec.mini-batch.enabled"
CDC_DUPLICATES: Final = "table.exec.source.cdc-events-duplicate"
NOT_NULL: Final = "table.exec.sink.not-null-enforcer"
SOURCE_IDLE: Final = "table.exec.source.idle-timeout"
IDLE_OPTION: Final = "scan.watermark.idle-timeout"  # of a table
MAX_FUTURE: Final = "table.exec.source.max-future"
MAX_FUTURE_OPTION: Final = "scan.watermark.max-future"  # of a table
WATERMARK_INTERVAL: Final = "pipeline.auto-watermark-interval"
PUSH_DOWN: Final = "watermark-push-down"  # of a table
RELOAD_OPTION: Final = "lookup.full-cache.periodic-reload.interval"  # of a table
CACHE_OPTION: Final = "lookup.cache"  # of a table
# Its values: a table is asked for each key, keeps answers for a while, or is held as a whole.
NO_CACHE: Final = "NONE"
PARTIAL: Final = "PARTIAL"
FULL: Final = "FULL"
# How often a key that a table misses is asked for again, and after which time.
MISS_ATTEMPTS: Final = "lookup.miss.max-attempts"
MISS_DELAY: Final = "lookup.miss.delay"
STATE_TTL: Final = "table.exec.state.ttl"
CLEANUP: Final = "table.exec.interval-join.min-cleanup-interval"
EARLY_FIRE: Final = "table.exec.emit.early-fire"
LATE_FIRE: Final = "table.exec.emit.late-fire"
ALLOW_LATENESS: Final = "table.exec.emit.allow-lateness"
LATE_ROWS: Final = "job.late-rows"
LATE_TABLE: Final = "job.late-rows.table"
AGG_PHASES: Final = "table.optimizer.agg-phase-strategy"
FILTER_PUSH_DOWN: Final = "table.optimizer.source.predicate-pushdown-enabled"
UNKNOWN_OPTIONS: Final = "job.unknown-options"
RUNTIME_MODE: Final = "execution.runtime-mode"
TIME_ZONE: Final = "table.local-time-zone"

# The longest duration (ms): added to any time it fits into 64 bits.
FOR_EVER_MS: Final = 1 << 60

AGG_STRATEGIES: Final = ("AUTO", "ONE_PHASE", "TWO_PHASE")


def late_table_name(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The parts of the name of the table that takes late rows; () where they are dropped."""
    name = settings.get(LATE_TABLE, "").strip()
    return tuple(name.split(".")) if name else ()


def is_batch(settings: Mapping[str, str]) -> bool:
    """True in batch mode. PlanError for an unknown mode."""
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
    """A setting such as '1 h' or '500 ms', in ms; a number alone is one of ms. At most
    `FOR_EVER_MS`."""
    if key not in settings:
        return default
    found = duration_in(settings[key])
    if found is None:
        raise PlanError(
            f"invalid value '{settings[key]}' of '{key}'",
            hint="write a duration such as '1 h' or '500 ms'",
        )
    return min(found, FOR_EVER_MS)


def duration_text(ms: int) -> str:
    """A duration in its largest whole unit, as `duration_ms` reads it: '1 d', '1500 ms'."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
    return next((f"{ms // size} {u}" for u, size in units if ms and not ms % size), f"{ms} ms")
