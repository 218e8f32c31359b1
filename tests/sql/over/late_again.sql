-- What OVER lets go on, seen by another OVER: late there is what the first one had to keep until the next watermark.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE w (k STRING, v INT, b1 BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/at_once.json', 'format' = 'json');
SELECT ts, m, SUM(b1) OVER (ORDER BY ts) AS s FROM (SELECT b1, MIN(v) OVER (PARTITION BY k, v ORDER BY ts RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW) AS m, ts FROM w);
SELECT ts, m, SUM(b1) OVER (ORDER BY ts) AS s FROM (SELECT b1, MIN(v) OVER (PARTITION BY k ORDER BY ts) AS m, ts FROM w);
-- A call that nobody reads goes, and the one below that only it has kept.
SELECT ts FROM (SELECT ts, SUM(b1) OVER (ORDER BY ts) AS s FROM (SELECT b1, MIN(v) OVER (ORDER BY ts) AS m, ts FROM w));
WITH c AS (SELECT ts, SUM(b1) OVER (ORDER BY ts) AS s FROM (SELECT b1, MIN(v) OVER (ORDER BY ts) AS m, ts FROM w)) SELECT ts FROM c;
