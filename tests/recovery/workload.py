"""The jobs of a life that is made to be killed, and the events that they read.

Events are numbered, and all of an event follows from its number: so whoever appends them goes on
where the last life died, and an undisturbed run gets the same."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

EVENTS_PER_BATCH = 40
ORDERS_PER_BATCH = 10  # of each of two shards
LINES_PER_BATCH = 5
BATCHES_PER_FILE = 40


@dataclass(frozen=True)
class Workload:
    """What runs in a server, and what is done with it. `topics`: those that are there before any
    job, with their shards; `retained`: those that retention shortens, with their bytes. `moved`:
    topics whose shards go to other folders. Jobs: `saved` are stopped with a savepoint and go on
    from it; `isolated` go from one graph to another, alone in what they write; `replaced` get
    another number into their text. In all texts `{folder}` is that of the life."""

    topics: Mapping[str, int]
    tables: str
    database: str
    jobs: Mapping[str, str]
    saved: Sequence[str]
    isolated: Sequence[str]
    replaced: Mapping[str, str]
    moved: Mapping[str, int]
    compacted: Sequence[str]
    retained: Mapping[str, int] = field(default_factory=dict)


_TOPICS = {
    "events": 1, "orders": 2, "alerts": 1, "totals": 1, "sessions": 1, "matched": 1, "ticks": 1, "drawn": 1, "hot": 1,
    "tailed": 1, "paid": 2, "changes": 1, "joined": 1, "copies": 2,
}  # fmt: skip

_TABLES = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), host STRING, command STRING, amount INT,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE timed (id BIGINT, p AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE orders (id BIGINT, event BIGINT, price INT)
WITH ('connector' = 'topic', 'topic' = 'orders', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE incoming (line STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/incoming', 'format' = 'raw',
  'source.monitor-interval' = '20 ms', 'source.follow' = 'true');
CREATE TABLE all_alerts (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (rule STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE totals (host STRING, n BIGINT, total INT, least INT, most INT, mean INT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json');
CREATE TABLE sessions (command STRING, n BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'sessions', 'format' = 'json');
CREATE TABLE matched (host STRING, low BIGINT, high BIGINT)
WITH ('connector' = 'topic', 'topic' = 'matched', 'format' = 'json');
CREATE TABLE ticks (n BIGINT, window_end TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'ticks', 'format' = 'json');
CREATE TABLE drawn (id BIGINT, r DOUBLE, u STRING, t TIMESTAMP_LTZ(3))
WITH ('connector' = 'topic', 'topic' = 'drawn', 'format' = 'json');
CREATE TABLE hot (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'hot', 'format' = 'json');
CREATE TABLE tailed (line STRING) WITH ('connector' = 'topic', 'topic' = 'tailed', 'format' = 'raw');
CREATE TABLE archive (id BIGINT, ts TIMESTAMP(3), host STRING, command STRING)
WITH ('connector' = 'topic', 'topic' = 'archive', 'format' = 'json');
CREATE TABLE paid (id BIGINT, price INT)
WITH ('connector' = 'topic', 'topic' = 'paid', 'format' = 'json', 'key.fields' = 'price');
CREATE TABLE counts (rule STRING, n BIGINT, latest BIGINT, PRIMARY KEY (rule) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE kept (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'kept', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE changes (host STRING, n BIGINT, total INT)
WITH ('connector' = 'topic', 'topic' = 'changes', 'format' = 'debezium-json');
CREATE TABLE joined (id BIGINT, price INT, host STRING)
WITH ('connector' = 'topic', 'topic' = 'joined', 'format' = 'debezium-json');
CREATE TABLE lines (id BIGINT, command STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lines', 'format' = 'csv');
CREATE TABLE lake (id BIGINT, command STRING, host STRING) PARTITIONED BY (host)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lake', 'format' = 'parquet',
  'sink.rolling-policy.file-size' = '4 kb', 'sink.rolling-policy.inactivity-interval' = '200 ms');
CREATE TABLE hosts (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'hosts');
CREATE TABLE seen (id BIGINT, command STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen');
"""
_DATABASE = """
CREATE TABLE IF NOT EXISTS hosts (host TEXT PRIMARY KEY, n BIGINT, total INT);
CREATE TABLE IF NOT EXISTS seen (id BIGINT, command TEXT);
"""
_RULES = {
    "curl": "LOWER(command) LIKE '%curl%'",
    "shadow": "command LIKE '%/etc/shadow%' AND amount > 10",
    "pattern": r"REGEXP(command, 'ba(sh|se64) -[a-z]')",
    "hosts": "host IN ('h1', 'h3') AND amount BETWEEN 5 AND 9",
    "null": "host IS NULL",
}
# The text of a job that is replaced again and again, and gives the same whatever the number is.
_HOT = "INSERT INTO hot SELECT id FROM events WHERE amount <> -{}"
_KEPT = """SET 'job.state' = 'keep';
INSERT INTO kept SELECT host, COUNT(*), SUM(amount) FROM events WHERE host IS NOT NULL AND amount <> -{} GROUP BY host"""
_JOBS = {
    **{
        name: f"INSERT INTO alerts SELECT '{name}', id FROM events WHERE {where}"
        for name, where in _RULES.items()
    },
    "window": (
        """INSERT INTO totals
SELECT host, COUNT(*), SUM(amount), MIN(amount), MAX(amount), AVG(amount), window_end
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY host, window_start, window_end"""
    ),
    "session": (
        """INSERT INTO sessions SELECT command, COUNT(*), window_start, window_end
FROM TABLE(SESSION(TABLE events PARTITION BY command, DESCRIPTOR(ts), INTERVAL '0.7' SECOND))
GROUP BY command, window_start, window_end"""
    ),
    "match": (
        """INSERT INTO matched SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY host ORDER BY ts MEASURES LOW.id AS low, HIGH.id AS high ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW PATTERN (LOW HIGH)
  DEFINE LOW AS LOW.amount < 8, HIGH AS HIGH.amount > LOW.amount)"""
    ),
    "chained": "INSERT INTO counts SELECT rule, COUNT(*), MAX(id) FROM all_alerts GROUP BY rule",
    "files": "INSERT INTO lines SELECT id, command FROM events WHERE amount = 7",
    "lake": "INSERT INTO lake SELECT id, command, host FROM events WHERE amount < 3",
    "by_host": (
        "INSERT INTO hosts SELECT host, COUNT(*), SUM(amount) FROM events WHERE host IS NOT NULL"
        " GROUP BY host"
    ),
    "seen": "INSERT INTO seen SELECT id, command FROM events WHERE amount IN (3, 11)",
    "join": (
        "INSERT INTO joined SELECT o.id, o.price, e.host FROM orders o LEFT JOIN events e ON"
        " o.event = e.id"
    ),
    "paid": "INSERT INTO paid SELECT id, price FROM orders WHERE price > 1",
    "tick": (
        "INSERT INTO ticks SELECT COUNT(*), window_end FROM TABLE(TUMBLE(TABLE timed,"
        " DESCRIPTOR(p), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end"
    ),
    "drawn": (
        "INSERT INTO drawn SELECT id, RAND(), UUID(), CURRENT_TIMESTAMP FROM events WHERE amount"
        " > 12"
    ),
    "tail": "INSERT INTO tailed SELECT line FROM incoming",
    "archive": "INSERT INTO archive SELECT id, ts, host, command FROM events",
    "saved": "INSERT INTO changes SELECT host, COUNT(*), SUM(amount) FROM events GROUP BY host",
    "kept": _KEPT.format(100),
    "hot": _HOT.format(100),
}
ALONE = Workload(
    _TOPICS,
    _TABLES,
    _DATABASE,
    _JOBS,
    saved=("saved", "window", "match"),
    isolated=(
        "window", "session", "match", "chained", "by_host", "seen", "join", "paid", "tick", "drawn", "tail", "archive", "saved",
        "kept",
    ),
    replaced={"hot": _HOT, "kept": _KEPT},
    moved={"totals": 1, "paid": 2, "events": 1},
    compacted=("counts", "kept"),
    retained={"archive": 96 << 10},
)  # fmt: skip
# The paths by where they end: who takes them, and what must hold of what comes out.
PATHS = {
    "alerts": ("five rules over one stream", "the same records in the same order"),
    "totals": (
        "a window with late rows; stopped with savepoints; its shard moves",
        "the same records in the same order",
    ),
    "sessions": ("session windows", "the same records in the same order"),
    "matched": ("MATCH_RECOGNIZE; stopped with savepoints", "the same records in the same order"),
    "hot": (
        "a rule that is replaced, renamed and rolled back",
        "the same records in the same order",
    ),
    "archive": (
        "a topic of which retention takes the beginning",
        "the same records in the same order from there on",
    ),
    "paid": (
        "a filter from two shards to two, which move",
        "per shard the same records in the same order",
    ),
    "tailed": ("files that grow, and new ones", "per file the same lines in the same order"),
    "drawn": (
        "RAND, UUID, CURRENT_TIMESTAMP",
        "each row once, in the same order, nothing drawn twice",
    ),
    "ticks": ("a window of processing time", "each window once, each event in one"),
    "counts": ("counts over what the rules wrote; compacted", "keys only grow, the same table"),
    "kept": (
        "counts by a text that is replaced, state kept; compacted",
        "keys only grow, the same table",
    ),
    "changes": (
        "counts as a changelog; stopped with savepoints",
        "each change fits those before it, the same rows",
    ),
    "joined": (
        "an outer join of two topics, as a changelog",
        "each change fits those before it, the same rows",
    ),
    "lines": ("a rule into a file", "the same lines in the same order"),
    "lake": (
        "Parquet files, by partition; they show when they are complete",
        "per partition the same rows in order",
    ),
    "hosts and seen": (
        "counts and a rule into SQLite",
        "the same rows, those that are added in the same order",
    ),
    "copies": (
        "a group of two whose members come and go",
        "per shard the same records in the same order",
    ),
}
COMMANDS = (
    "ls -l",
    "curl http://x",
    "cat /etc/shadow",
    "bash -c id",
    "base64 -d x",
    "CURL -k",
    "vi notes",
)


def event(number: int) -> dict[str, object]:
    """The numbered event: times move on by 250 ms and jump back now and then, some far enough to be
    late."""
    back = 0 if number % 17 else 3_000 if number % 34 else 15_000
    at = 1_700_000_000_000 + number * 250 - back
    seconds, ms = divmod(at, 1000)
    host = None if number % 23 == 0 else f"h{number * 7 % 5}"
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{ms:03}"
    command = COMMANDS[number * number % len(COMMANDS)]
    return {"id": number, "ts": text, "host": host, "command": command, "amount": number * 13 % 20}


def in_the_lake(events: int) -> int:
    """How many of the first events are rows of the Parquet files."""
    return sum(int(str(event(n)["amount"])) < 3 for n in range(events))


def encoded(number: int) -> bytes:
    """The record of an event."""
    return json.dumps(event(number)).encode()


def order(shard: int, number: int) -> bytes:
    """The numbered order of a shard, of an event that is there or comes; each 41st record cannot be
    read."""
    known = 2 * number + shard
    if number % 41 == 40:
        return b'{"id": %d, "event":' % known
    return b'{"id": %d, "event": %d, "price": %d}' % (
        known,
        2 * known + number % 3 * 50,
        number * 7 % 11,
    )


def line(number: int) -> bytes:
    """The numbered line of the files that are read: all have one length."""
    return b"line %010d of what is in files\n" % number
