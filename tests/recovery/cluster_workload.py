"""The jobs of a server with two instances: most run in subtasks, those with files and SQLite beside
them in the server's process.

Rows are numbered, as those of the server alone (`workload`) are."""

from __future__ import annotations

from tests.recovery.workload import Workload

SHARDS = 4
ROWS_PER_BATCH = 5  # of each shard
LINES_PER_BATCH = 5
BATCHES_PER_FILE = 10

_TOPICS = {
    "readings": SHARDS, "bids": SHARDS, "found": 1, "minutes": 1, "pairs": 2, "grown": 1, "hot": 1, "drawn": 1, "ticks": 1,
    "tailed": 1, "echoed": 1,
}  # fmt: skip
_TABLES = """
CREATE TABLE readings (id BIGINT, ts TIMESTAMP(3), host STRING, amount INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE timed (id BIGINT, p AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE bids (id BIGINT, price INT)
WITH ('connector' = 'topic', 'topic' = 'bids', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE incoming (line STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/incoming', 'format' = 'raw',
  'source.monitor-interval' = '50 ms', 'source.follow' = 'true');
CREATE TABLE found (id BIGINT, host STRING) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
CREATE TABLE all_found (id BIGINT, host STRING)
WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE minutes (host STRING, n BIGINT, total INT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'minutes', 'format' = 'json');
CREATE TABLE pairs (id BIGINT, host STRING, price INT)
WITH ('connector' = 'topic', 'topic' = 'pairs', 'format' = 'json', 'key.fields' = 'host');
CREATE TABLE grown (host STRING, n BIGINT, total INT)
WITH ('connector' = 'topic', 'topic' = 'grown', 'format' = 'debezium-json');
CREATE TABLE sums (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'sums', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE known (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'known', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE hot (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'hot', 'format' = 'json');
CREATE TABLE ticks (n BIGINT, window_end TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'ticks', 'format' = 'json');
CREATE TABLE drawn (id BIGINT, r DOUBLE, u STRING, t TIMESTAMP_LTZ(3))
WITH ('connector' = 'topic', 'topic' = 'drawn', 'format' = 'json');
CREATE TABLE tailed (line STRING) WITH ('connector' = 'topic', 'topic' = 'tailed', 'format' = 'raw');
CREATE TABLE all_tailed (line STRING)
WITH ('connector' = 'topic', 'topic' = 'tailed', 'format' = 'raw', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE echoed (line STRING) WITH ('connector' = 'topic', 'topic' = 'echoed', 'format' = 'raw');
CREATE TABLE lines (id BIGINT, host STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lines', 'format' = 'csv');
CREATE TABLE lake (id BIGINT, host STRING) PARTITIONED BY (host)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lake', 'format' = 'parquet',
  'sink.rolling-policy.file-size' = '4 kb', 'sink.rolling-policy.inactivity-interval' = '200 ms');
CREATE TABLE hosts (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'hosts');
CREATE TABLE seen (id BIGINT, host STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen');
"""
_DATABASE = """
CREATE TABLE IF NOT EXISTS hosts (host TEXT PRIMARY KEY, n BIGINT);
CREATE TABLE IF NOT EXISTS seen (id BIGINT, host TEXT);
"""
_HOT = "INSERT INTO hot SELECT id FROM readings WHERE amount > 3 AND amount <> -{}"
_SUMS = """SET 'job.state' = 'keep';
INSERT INTO sums SELECT host, COUNT(*), SUM(amount) FROM readings WHERE amount <> -{} GROUP BY host"""
_JOBS = {
    "rule": "INSERT INTO found SELECT id, host FROM readings WHERE amount > 6",
    "chained": "INSERT INTO known SELECT host, COUNT(*) FROM all_found GROUP BY host",
    "window": (
        "INSERT INTO minutes SELECT host, COUNT(*), SUM(amount), window_end FROM TABLE(TUMBLE(TABLE"
        " readings, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY host, window_start, window_end"
    ),
    "join": (
        "INSERT INTO pairs SELECT r.id, r.host, b.price FROM readings r JOIN bids b ON r.id = b.id"
    ),
    "grown": "INSERT INTO grown SELECT host, COUNT(*), SUM(amount) FROM readings GROUP BY host",
    "tick": (
        "INSERT INTO ticks SELECT COUNT(*), window_end FROM TABLE(TUMBLE(TABLE timed,"
        " DESCRIPTOR(p), INTERVAL '0.5' SECOND)) GROUP BY window_start, window_end"
    ),
    "drawn": (
        "INSERT INTO drawn SELECT id, RAND(), UUID(), CURRENT_TIMESTAMP FROM readings WHERE"
        " amount > 8"
    ),
    "echo": "INSERT INTO echoed SELECT line FROM all_tailed",
    "sums": _SUMS.format(100),
    "hot": _HOT.format(100),
    # Not in subtasks: what files and databases are read and written by.
    "tail": "INSERT INTO tailed SELECT line FROM incoming",
    "files": "INSERT INTO lines SELECT id, host FROM readings WHERE amount = 7",
    "lake": "INSERT INTO lake SELECT id, host FROM readings WHERE amount < 3",
    "by_host": "INSERT INTO hosts SELECT host, COUNT(*) FROM all_found GROUP BY host",
    "seen": "INSERT INTO seen SELECT id, host FROM readings WHERE amount IN (2, 9)",
}
IN_PARTS = Workload(
    _TOPICS,
    _TABLES,
    _DATABASE,
    _JOBS,
    saved=("window", "grown", "join", "rule"),
    # Those that are saved, too: what comes back from a savepoint, alone, nobody else brings home.
    isolated=(
        "rule",
        "window",
        "join",
        "grown",
        "chained",
        "tick",
        "drawn",
        "echo",
        "sums",
        "tail",
        "by_host",
        "seen",
    ),
    replaced={"hot": _HOT, "sums": _SUMS},
    moved={"minutes": 1, "pairs": 2, "readings": SHARDS},
    compacted=("sums", "known"),
)
# By where they end: who takes them, and what must hold of what comes out.
DIVIDED = {
    "found": (
        "a rule; stopped with savepoints",
        "of each shard the same records in the same order",
    ),
    "minutes": ("a window; stopped with savepoints; its shard moves", "the same records"),
    "pairs": ("a join; stopped with savepoints; its shards move", "the same records"),
    "grown": (
        "counts as a changelog; stopped with savepoints",
        "each change fits those before it, the same rows",
    ),
    "sums": (
        "counts by a text that is replaced, state kept; compacted",
        "keys only grow, the same table",
    ),
    "known": ("counts of what the rule found; compacted", "keys only grow, the same table"),
    "hot": (
        "a rule that is replaced, renamed and rolled back",
        "of each shard the same records in the same order",
    ),
    "drawn": (
        "RAND, UUID, CURRENT_TIMESTAMP",
        "each row once, in the order of each shard, nothing drawn twice",
    ),
    "ticks": ("a window of processing time", "each window once, each reading in one"),
    "echoed": ("what the server has read from files", "per file the same lines in the same order"),
}
BESIDE = {
    "tailed": (
        "files that grow, and new ones, for a job in parts",
        "per file the same lines in the same order",
    ),
    "lines": ("a rule into a file", "of each shard the same lines in the same order"),
    "lake": (
        "Parquet files, by partition; they show when they are complete",
        "per partition and shard the same rows in order",
    ),
    "hosts and seen": (
        "counts of what was found in parts, and a rule, into SQLite",
        "the same rows; those that are added of each shard in the same order",
    ),
}
PATHS = DIVIDED | BESIDE


def reading(shard: int, number: int) -> dict[str, object]:
    """The numbered reading of a shard: times jump back, but never so far that one is late."""
    ms = number * 500 - (1_500 if number % 5 == 3 else 0)
    at = max(0, ms)
    moment = (
        "2026-01-01"
        f" {at // 3_600_000:02}:{at // 60_000 % 60:02}:{at // 1000 % 60:02}.{at % 1000:03}"
    )
    unlike = number * 7919 + shard * 104_729
    return {
        "id": number * SHARDS + shard,
        "ts": moment,
        "host": f"h{unlike % 9}",
        "amount": unlike // 9 % 12,
    }


def bid(shard: int, number: int) -> tuple[int, int] | None:
    """Id and price: every other reading has one, in another shard. None for each 41st, which cannot
    be read."""
    known = number * SHARDS + (shard + 1) % SHARDS
    return None if number % 41 == 40 else (known if number % 2 else -known - 1, number % 50)


def encoded_bid(shard: int, number: int) -> bytes:
    """The record of a bid."""
    found = bid(shard, number)
    return b'{"id": %d, "price":' % number if found is None else b'{"id": %d, "price": %d}' % found
