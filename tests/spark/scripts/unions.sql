-- Rows of two sources meet below an aggregate; rows of an aggregate meet others above it.
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/many', 'format' = 'json');

CREATE TABLE u (k STRING, ts TIMESTAMP(3), v INT, name STRING NOT NULL METADATA FROM 'file.name', place BIGINT NOT NULL METADATA FROM 'offset',
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/one', 'format' = 'json');

CREATE VIEW both_of_them AS SELECT ts, k, v FROM t WHERE v > 2 UNION ALL SELECT ts, UPPER(k), v + 100 FROM u;

SELECT window_start, k, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE both_of_them, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;

SELECT k, n, n * 2 AS twice FROM (
  SELECT window_start, k, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k
) WHERE n > 3
UNION ALL SELECT name, place, CAST(v AS BIGINT) FROM u WHERE v < 5
UNION ALL VALUES ('constant', CAST(1 AS BIGINT), CAST(2 AS BIGINT));

SELECT a, b + 1 FROM (VALUES (1, 2), (3, 4)) AS v(a, b) WHERE a > 1;
