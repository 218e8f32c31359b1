"""Retention: removes whole segments, oldest first, never the last one."""

from __future__ import annotations

from sqlengine.broker.storage.shard import ShardLog


def apply_retention(
    log: ShardLog, now_ms: int, retention_ms: int | None, retention_bytes: int | None
) -> None:
    """Removes segments whose records are all older than `retention_ms`, and those not needed to
    keep `retention_bytes`."""
    with log.maintenance:
        oldest = None if retention_ms is None else now_ms - retention_ms
        if oldest is not None and log.segments[-1].tail.max_timestamp < oldest:
            # All records are too old: a new, empty segment lets the present one be removed too.
            log.roll()
        segments, size = log.segments, log.size
        count = 0
        for segment in segments[:-1]:
            expired = oldest is not None and segment.tail.max_timestamp < oldest
            size -= segment.tail.size
            if not expired and (retention_bytes is None or size < retention_bytes):
                break
            count += 1
        if count:
            log.drop(count)


def trim(log: ShardLog, before: int) -> None:
    """Removes segments whose records are all before an offset."""
    with log.maintenance:
        segments = log.segments
        count = sum(following.base <= before for following in segments[1:])
        if count:
            log.drop(count)
