"""The texts of jobs that may run in families: of each shape there are many, with other conditions,
literals and lengths."""

from __future__ import annotations

TABLES = """
CREATE TABLE events (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), come AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE owners (host STRING, owner BIGINT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'owners', 'format' = 'json');
CREATE TABLE names (host STRING, id BIGINT, name BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{folder}/names.csv', 'format' = 'csv',
  'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 ms');
CREATE TABLE outs (job STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
CREATE TABLE totals (job STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'debezium-json');
"""
TOPICS = ("events", "owners", "out", "totals")
WINDOWS = {
    "tumble": """INSERT INTO outs SELECT '{name}', host, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{offset}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
    "fails": """INSERT INTO outs SELECT '{name}', host, SUM({more} / (id % 4))
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING 100 / (COUNT(*) - 1) > {least}""",
    "session": """INSERT INTO outs SELECT '{name}', host, COUNT(*) + {least} FROM events
        WHERE {where} GROUP BY SESSION(ts, INTERVAL '{size}' SECOND), host""",
    "listed session": """INSERT INTO outs SELECT '{name}', host, CHAR_LENGTH(LISTAGG(CAST(id AS STRING))) FROM events
        WHERE {where} GROUP BY SESSION(ts, INTERVAL '{size}' SECOND), host""",
    "distinct": """INSERT INTO outs SELECT '{name}', host, COUNT(DISTINCT id)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
}
SLICES = {
    "hop": """INSERT INTO outs SELECT '{name}', host, MAX(id * {more}) - {least}
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{double}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host""",
    "uneven hop": """INSERT INTO outs SELECT '{name}', host, COUNT(*) + {least} FROM events
        WHERE {where} GROUP BY HOP(ts, INTERVAL '{size}' SECOND, INTERVAL '1.5' SECOND), host""",
    "cumulate": """INSERT INTO outs SELECT '{name}', host, SUM(id) + {least}
        FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{double}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, host""",
    "rows in window": """INSERT INTO outs SELECT '{name}', host, id * 10 + nth + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, host ORDER BY id DESC) AS nth
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND, INTERVAL '{double}' SECOND))
        WHERE {where}) WHERE nth <= 2""",
}
CHANGES = {
    "group": """INSERT INTO totals SELECT '{name}', host, n
        FROM (SELECT host, SUM(id) AS n FROM events WHERE {where} GROUP BY host) WHERE n > {least}""",
    "values": """INSERT INTO totals SELECT '{name}', host, n FROM (
        SELECT host, COUNT(DISTINCT id) AS n FROM events WHERE {where} GROUP BY host) WHERE n > {least}""",
    "over time": """INSERT INTO outs SELECT '{name}', host, n FROM (
        SELECT host, MAX(id) OVER w + COUNT(*) OVER w * 100 AS n FROM events WHERE {where}
        WINDOW w AS (PARTITION BY host ORDER BY ts RANGE BETWEEN INTERVAL '{size}' SECOND PRECEDING AND CURRENT ROW)) WHERE n >= {least}""",
    "over arrival": """INSERT INTO outs SELECT '{name}', host, n FROM (
        SELECT host, COUNT(*) OVER (PARTITION BY host ORDER BY come ROWS BETWEEN {more} PRECEDING AND CURRENT ROW) AS n
        FROM events WHERE {where}) WHERE n >= {least}""",
    "over": """INSERT INTO outs SELECT '{name}', host, n FROM (
        SELECT host, SUM(id) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN {more} PRECEDING AND CURRENT ROW) AS n
        FROM events WHERE {where}) WHERE n >= {least}""",
    "all": """INSERT INTO outs SELECT '{name}', host, SUM(n) OVER (PARTITION BY host ORDER BY ts) FROM (
        SELECT host, id AS n, ts FROM events WHERE {where})""",
}
RANKS = {
    "limit": """INSERT INTO totals SELECT '{name}', host, id FROM events WHERE {where} ORDER BY id DESC LIMIT {more}""",
    "few": """INSERT INTO outs SELECT '{name}', host, id + {least} FROM (SELECT * FROM events WHERE {where} LIMIT {more})""",
    "first": """INSERT INTO outs SELECT '{name}', host, id + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY host, id ORDER BY ts) AS nth FROM events WHERE {where}) WHERE nth = 1""",
    "last": """INSERT INTO totals SELECT '{name}', host, id + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY ts DESC) AS nth FROM events WHERE {where}) WHERE nth = 1""",
    "top": """INSERT INTO totals SELECT '{name}', host, id * 10 + nth FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY id DESC) AS nth FROM events WHERE {where})
        WHERE nth <= {more} AND id > {least}""",
}
EVERY = {
    "every tumble": """INSERT INTO outs SELECT '{name}', host, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
        GROUP BY window_start, window_end, host HAVING COUNT(*) > {least}""",
    "every group": """INSERT INTO totals SELECT '{name}', host, n
        FROM (SELECT host, SUM(id) AS n FROM events GROUP BY host) WHERE n > {least}""",
    "every session": """INSERT INTO outs SELECT '{name}', host, COUNT(*) + {least}
        FROM TABLE(SESSION(TABLE events PARTITION BY host, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
        GROUP BY window_start, window_end, host""",
}
JOINS = {
    "in window": """INSERT INTO outs SELECT '{name}', a.host, a.id * 20 + b.id + {least} FROM (
        SELECT * FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) WHERE {where}) AS a JOIN (
        SELECT * FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) WHERE id > {more}) AS b
        ON a.host = b.host AND a.window_start = b.window_start AND a.window_end = b.window_end""",
    "near": """INSERT INTO outs SELECT '{name}', a.host, a.id * 20 + b.id + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a JOIN events AS b
        ON a.host = b.host AND b.ts BETWEEN a.ts - INTERVAL '0.5' SECOND AND a.ts AND a.id * {more} > b.id""",
    "outer": """INSERT INTO outs SELECT '{name}', a.host, COALESCE(b.id, -1) + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a LEFT JOIN (SELECT * FROM events WHERE id > {least}) AS b
        ON a.host = b.host AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '0.5' SECOND AND a.id < b.id + {least}""",
    "tables": """INSERT INTO outs SELECT '{name}', a.host, o.owner + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a JOIN owners AS o
        ON a.host = o.host AND o.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND""",
    "look up": """INSERT INTO outs SELECT '{name}', a.host, o.owner + {least}
        FROM (SELECT * FROM events WHERE {where}) AS a
        LEFT JOIN owners FOR SYSTEM_TIME AS OF a.come AS o ON a.host = o.host""",
    "regular": """INSERT INTO totals SELECT '{name}', a.host, a.id * 10 + o.owner
        FROM (SELECT * FROM events WHERE {where}) AS a LEFT JOIN owners AS o ON a.host = o.host""",
}
MAPPED = {
    "named": """INSERT INTO outs SELECT '{name}', a.host, a.id * 100 + n.name + {least} FROM (SELECT * FROM events WHERE {where}) AS a
        LEFT JOIN names FOR SYSTEM_TIME AS OF a.come AS n ON a.host = n.host AND n.id < a.id + {least}""",
    "two keys": """INSERT INTO outs SELECT '{name}', a.host, n.name FROM (SELECT * FROM events WHERE {where}) AS a
        JOIN names FOR SYSTEM_TIME AS OF a.come AS n ON a.host = n.host AND a.id = n.id WHERE n.name > {least}""",
    "every name": """INSERT INTO outs SELECT '{name}', a.host, n.name + {least} FROM events AS a
        LEFT JOIN names FOR SYSTEM_TIME AS OF a.come AS n ON a.id = n.id""",
    "counted names": """INSERT INTO outs SELECT '{name}', host, COUNT(name) + {least} FROM TABLE(TUMBLE((
        SELECT a.host, a.ts, n.name FROM (SELECT * FROM events WHERE {where}) AS a
        LEFT JOIN names FOR SYSTEM_TIME AS OF a.come AS n ON a.id = n.id),
        DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) GROUP BY window_start, window_end, host""",
}
CHAINS = {
    "best": """INSERT INTO outs SELECT '{name}', host, n + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, host) AS nth FROM (
            SELECT host, COUNT(*) AS n, window_start, window_end
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
            WHERE {where} GROUP BY window_start, window_end, host)) WHERE nth <= {more}""",
    "windows of windows": """INSERT INTO outs SELECT '{name}', host, SUM(n * {more}) FROM TABLE(HOP((
        SELECT host, COUNT(*) AS n, window_time AS ts
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))
        WHERE {where} GROUP BY window_start, window_end, window_time, host),
        DESCRIPTOR(ts), INTERVAL '{double}' SECOND, INTERVAL '{four}' SECOND))
        GROUP BY window_start, window_end, host""",
    "ranked": """INSERT INTO totals SELECT '{name}', host, n * 10 + nth + {least} FROM (
        SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS nth FROM (
            SELECT host, SUM(id) AS n FROM events WHERE {where} GROUP BY host)) WHERE nth <= {more}""",
    "joined": """INSERT INTO totals SELECT '{name}', host, n + {least} FROM (
        SELECT a.host, COUNT(*) AS n FROM (SELECT * FROM events WHERE {where}) AS a JOIN owners AS o
        ON a.host = o.host GROUP BY a.host)""",
    "pattern": """INSERT INTO outs SELECT '{name}', host, a * 20 + b + {least}
        FROM (SELECT host, id, ts FROM events WHERE {where}) MATCH_RECOGNIZE (PARTITION BY host ORDER BY ts
        MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS B.id * {more} > A.id + 1)""",
}
ALERTS = {
    "suppressed": """SET 'rule.suppress' = '3s by host into n';
        INSERT INTO outs SELECT '{name}', host, {least} FROM events WHERE {where}""",
    "limited": """SET 'rule.limit' = '2/2s into n';
        INSERT INTO outs SELECT '{name}', host, {least} FROM events WHERE {where}""",
    "closed": """SET 'rule.suppress' = '3s by host, then count into n';
        INSERT INTO outs SELECT '{name}', host, {least} FROM events WHERE {where}""",
    "reached": """SET 'rule.threshold' = '2 in 3s by host'; SET 'rule.suppress' = '2s';
        INSERT INTO outs SELECT '{name}', host, id + {least} FROM events WHERE {where}""",
    "every alert": """SET 'rule.suppress' = '1s by job, host into n';
        INSERT INTO outs SELECT '{name}', host, {least} FROM events""",
}
# Each holds alerts back for itself, in front of what may be a family.
MAINTAINED = """SET 'rule.maintenance' = '00:00-00:0{more}'; SET 'rule.suppress' = '2s by host into n';
    INSERT INTO outs SELECT '{name}', host, id FROM events WHERE {where}"""
SHAPES = ALERTS | WINDOWS | SLICES | CHANGES | RANKS | EVERY | JOINS | MAPPED | CHAINS
WHERE = ["host = 'h{}'", "id % 3 = {}", "host <> 'h{}' AND id > 3", "host LIKE '%{}'"]
# Sizes of windows in seconds, and their offsets.
SIZES = {"0.5": "0", "1": "0.25", "1.2": "-0.4", "3": "1"}
LATE = "SET 'job.late-rows' = 'dead-letter';"


def lengths(size: str) -> dict[str, str]:
    """Returns the lengths of windows in a text, in seconds."""
    return {
        "size": size,
        "double": str(2 * float(size)),
        "four": str(4 * float(size)),
        "offset": SIZES[size],
    }
