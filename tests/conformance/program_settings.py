"""The settings of a test program. The corpus has their values only: which setting is meant follows
from the value and from the kind of program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MINI_BATCH = "table.exec.mini-batch.enabled"
LATENCY = "table.exec.mini-batch.allow-latency"
SIZE = "table.exec.mini-batch.size"
WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
NESTED = "table.exec.sink.nested-constraint-enforcer"
NOT_NULL = "table.exec.sink.not-null-enforcer"
LENGTH = "table.exec.sink.type-length-enforcer"

# By value: what it can only mean.
_BY_VALUE: Mapping[str, tuple[str, ...]] = {
    "ROWS": (NESTED,),
    "ROWS_AND_COLLECTIONS": (NESTED,),
    "DROP": (NOT_NULL,),
    "ERROR": (NOT_NULL, LENGTH),
    "TRIM_PAD": (LENGTH,),
    "ONE_PHASE": ("table.optimizer.agg-phase-strategy",),
    "TWO_PHASE": ("table.optimizer.agg-phase-strategy",),
    "FORCE": ("table.optimizer.delta-join.strategy",),
    "TRY_RESOLVE": ("table.optimizer.non-deterministic-update.strategy",),
    "UTC": ("table.local-time-zone",),
}
# A switch that is on, by kind of program.
_SWITCHES: Mapping[str, str] = {
    "ChangelogNormalize": "table.exec.source.cdc-events-duplicate",
    "OverWindow": "table.exec.source.cdc-events-duplicate",
    "MultiJoin": "table.optimizer.multi-join.enabled",
    "WindowAggregate": "table.optimizer.distinct-agg.split.enabled",
    "Expand": "table.optimizer.distinct-agg.split.enabled",
    "Sink": "table.exec.sink.require-on-conflict",
}


def settings_of(
    group: str, steps: Sequence[Mapping[str, object]]
) -> tuple[dict[str, str], int | None]:
    """The settings of a program of this class, and how many rows its mini-batches have (None: it
    has none)."""
    given = [(s.get("key"), s["value"]) for s in steps if s["step"] == "ConfigOptionTestStep"]
    values = [value for _, value in given]
    settings = {str(key): _text(value) for key, value in given if key}
    for value in (value for key, value in given if not key and isinstance(value, str)):
        settings |= dict.fromkeys(_BY_VALUE.get(value, ()), value)
    batched = True in values and any(isinstance(v, str) and v.startswith("PT") for v in values)
    switch = next((s for name, s in _SWITCHES.items() if group.startswith(name)), None)
    flags = [v for key, v in given if not key and isinstance(v, bool)]
    if switch and flags and (not batched or len(flags) > 1):
        settings[switch] = _text(flags[0])
    settings.setdefault(WATERMARK_INTERVAL, "200 ms")
    # Flink restores compiled plans, which are not checked any more.
    if not group.startswith("SinkTest"):
        settings.setdefault("table.exec.sink.require-on-conflict", "false")
    if not batched:
        return settings, None
    size = next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), 1)
    return {**settings, MINI_BATCH: "true", LATENCY: "10 s", SIZE: str(size)}, size


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
