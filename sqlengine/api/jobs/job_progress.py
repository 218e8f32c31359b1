"""The progress of jobs as JSON. Times of events are ISO 8601, with a Z where they are instants."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from sqlengine.engine.views.job_progress import (
    EventTime,
    JobProgress,
    ShardProgress,
    TableProgress,
    Wait,
)

NO_PROGRESS: Final = JobProgress()


def progress_json(progress: JobProgress, *, details: bool) -> dict[str, object]:
    """Returns the tables that a job reads, with `details` by shard, what waits, and the tables of
    look-ups that are held as a whole."""
    return {
        "tables": [_table_json(t, details=details) for t in progress.tables],
        "waits": [_wait_json(w) for w in progress.waits],
        "lookups": [asdict(t) for t in progress.lookups],
    }


def _table_json(table: TableProgress, *, details: bool) -> dict[str, object]:
    body: dict[str, object] = {
        "table": table.table,
        "behind": table.behind,
        "unit": table.unit,
        "watermark": _text(table.watermark),
        "lag_ms": table.lag_ms,
        "late_rows": table.late_rows,
        "idle_shards": table.idle_shards,
        "lost_files": table.lost_files,
        "ended": table.ended,
    }
    return body | {"shards": [_shard_json(s) for s in table.shards]} if details else body


def _shard_json(shard: ShardProgress) -> dict[str, object]:
    return {
        "shard": shard.shard,
        "offset": shard.offset,
        "end": shard.end,
        "watermark": _text(shard.watermark),
        "idle": shard.idle,
    }


def _wait_json(wait: Wait) -> dict[str, object]:
    return {
        "operation": wait.operation,
        "number": wait.number,
        "unit": wait.unit,
        "until": str(wait.until),
        "watermark": _text(wait.reached),
        "table": wait.table,
        "shard": wait.shard,
        "hint": wait.hint,
        "text": wait.summary,
    }


def _text(time: EventTime | None) -> str | None:
    return None if time is None else str(time)
