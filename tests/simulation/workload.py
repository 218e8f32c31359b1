"""What runs in a life, and what must come out of it by plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

TABLES = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), host STRING, amount INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (job STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE mids (id BIGINT, amount INT)
WITH ('connector' = 'topic', 'topic' = 'mids', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE totals (host STRING, n BIGINT, total INT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'key.fields' = 'host');
CREATE TABLE latest (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'latest', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE kept (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'kept', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE latecomers (id BIGINT, ts TIMESTAMP(3), host STRING, amount INT)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'latest-offset');
CREATE TABLE joined (id BIGINT, host STRING, amount INT)
WITH ('connector' = 'topic', 'topic' = 'joined', 'format' = 'json');
CREATE TABLE timed (id BIGINT, p AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE ticks (n BIGINT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'ticks', 'format' = 'json');
CREATE TABLE drawn (id BIGINT, r DOUBLE, u STRING, t TIMESTAMP_LTZ(3))
WITH ('connector' = 'topic', 'topic' = 'drawn', 'format' = 'json');
CREATE TABLE lines (id BIGINT, host STRING)
WITH ('connector' = 'filesystem', 'path' = '/a/lines', 'format' = 'json', 'sink.fsync' = '{fsync}');
CREATE TABLE stored (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:/a/app.db', 'table-name' = 'stored');
CREATE TABLE added (id BIGINT, host STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:/a/app.db', 'table-name' = 'added');
"""
KEPT = (
    "SET 'job.state' = 'keep';\nINSERT INTO kept SELECT host, COUNT(*), SUM(amount) FROM events"
    " WHERE amount <> -{} GROUP BY host"
)
HOT = "INSERT INTO alerts SELECT 'hot', id FROM events WHERE amount <> -{}"
JOBS = {
    "rule": (
        "INSERT INTO alerts SELECT 'rule', id FROM events WHERE host IN ('h1', 'h2') AND amount > 3"
    ),
    "window": (
        "INSERT INTO totals SELECT host, COUNT(*), SUM(amount), window_end FROM TABLE(TUMBLE(TABLE"
        " events, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY host, window_start, window_end"
    ),
    "first": "INSERT INTO mids SELECT id, amount FROM events WHERE amount > 4",
    "second": "INSERT INTO alerts SELECT 'second', id FROM mids WHERE amount > 6",
    "latest": "INSERT INTO latest SELECT host, COUNT(*), SUM(amount) FROM events GROUP BY host",
    "joined": (
        "INSERT INTO joined SELECT e.id, e.host, m.amount FROM events e JOIN mids m ON e.id = m.id"
    ),
    # What the clock and chance decide: it must be the same again after a death.
    "ticks": (
        "INSERT INTO ticks SELECT COUNT(*), window_end FROM TABLE(TUMBLE(TABLE timed,"
        " DESCRIPTOR(p), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    ),
    "drawn": (
        "INSERT INTO drawn SELECT id, RAND(), UUID(), CURRENT_TIMESTAMP FROM events WHERE"
        " amount > 2"
    ),
    "stored": "INSERT INTO stored SELECT host, COUNT(*), SUM(amount) FROM events GROUP BY host",
    "added": "INSERT INTO added SELECT id, host FROM events WHERE amount > 5",
    "files": "INSERT INTO lines SELECT id, host FROM events WHERE amount < 6",
}
REPLACED = {"hot": HOT, "kept": KEPT}
# What can run in parts, and a job that comes while others run there.
DIVIDED = ["rule", "window", "first", "second", "latest", "joined", "ticks", "drawn"]
LATE = "INSERT INTO alerts SELECT '{name}', id FROM latecomers WHERE amount > 2"
# A job brought while the others run, and withdrawn again in some lives.
EXTRA = "INSERT INTO alerts SELECT '{name}', id FROM events WHERE amount > {least}"
TOPICS = {"events": 2, "alerts": 1, "mids": 1, "totals": 2, "joined": 1, "ticks": 1, "drawn": 1}

# The second engine: what the first one's alerts become there.
AFAR = """
CREATE TABLE arrived (job STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'arrived', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE counted (job STRING, n BIGINT, PRIMARY KEY (job) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counted', 'format' = 'json', 'upsert' = 'true');
"""
COUNT = "INSERT INTO counted SELECT job, COUNT(*) FROM arrived GROUP BY job"
AFAR_TOPICS = {"arrived": 1}

Row = tuple[object, ...]


@dataclass(frozen=True)
class Event:
    """`broken`: its record cannot be read."""

    id: int
    ms: int
    host: str
    amount: int
    broken: bool = False

    def line(self) -> bytes:
        if self.broken:
            return b'{"id": %d, "ts":' % self.id
        seconds, ms = divmod(self.ms, 1000)
        text = f"2026-01-01 {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
        return json.dumps(
            {"id": self.id, "ts": text, "host": self.host, "amount": self.amount}
        ).encode()


def event(shard: int, number: int, *, late: bool) -> Event:
    """The numbered event of a shard: times jump back, but only with `late` by as much as could make
    it late."""
    back = (5_500 if late else 1_500) if number % 5 == 3 else 0
    unlike = number * 7919 + shard * 104_729
    broken = number % 11 == 7
    return Event(
        number * 2 + shard, max(0, number * 700 - back), f"h{unlike % 4}", unlike // 4 % 10, broken
    )


def expected(job: str, events: list[list[Event]]) -> list[Row]:
    """The rows of a job over all events, by shard, sorted."""
    events = [[e for e in shard if not e.broken] for shard in events]
    every = [e for shard in events for e in shard]
    match job:
        case "hot":
            rows: Iterable[Row] = (("hot", e.id) for e in every)
        case "rule":
            rows = (("rule", e.id) for e in every if e.host in ("h1", "h2") and e.amount > 3)
        case "first":
            rows = ((e.id, e.amount) for e in every if e.amount > 4)
        case "second":
            rows = (("second", e.id) for e in every if e.amount > 6)
        case "joined":
            rows = ((e.id, e.host, e.amount) for e in every if e.amount > 4)
        case "drawn":
            rows = ((e.id,) for e in every if e.amount > 2)
        case "files":
            rows = ((e.id, e.host) for e in every if e.amount < 6)
        case "added":
            rows = ((e.id, e.host) for e in every if e.amount > 5)
        case "latest" | "stored" | "kept":
            rows = _grouped((e.host, e) for e in every)
        case _:
            rows = _windows(events)
    return sorted(rows)


Key = TypeVar("Key")


def _grouped(events: Iterable[tuple[Key, Event]]) -> list[tuple[Key, int, int]]:
    found: dict[Key, list[Event]] = {}
    for key, e in events:
        found.setdefault(key, []).append(e)
    return [(key, len(es), sum(e.amount for e in es)) for key, es in found.items()]


def _windows(events: list[list[Event]]) -> Iterable[Row]:
    """Of the windows that are over: their end is not behind the watermark of any shard."""
    if not all(events):
        return
    watermark = min(max(e.ms for e in shard) - 2_000 for shard in events)
    for (host, number), n, total in _grouped(
        ((e.host, e.ms // 5_000), e) for shard in events for e in shard
    ):
        end = (number + 1) * 5_000
        if end - 1 <= watermark:
            yield (
                host,
                n,
                total,
                f"2026-01-01 {end // 3_600_000:02}:{end // 60_000 % 60:02}:{end // 1000 % 60:02}",
            )
