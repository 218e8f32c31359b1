SET 'pipeline.auto-watermark-interval' = '0';
-- OVER drops late rows. Where nobody reads its results Flink leaves it out, if a projection alone stands above it.
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE VIEW o AS SELECT ts, k, v, w, COUNT(v) OVER (ORDER BY ts) AS n, SUM(w) OVER (ORDER BY ts) AS s FROM e;
SELECT ts, v FROM o;
SELECT ts, n FROM o;
SELECT ts, v FROM o WHERE w > 0;
SELECT ts, COUNT(*) AS n FROM o GROUP BY ts;
SELECT COUNT(*) AS n FROM o;
SELECT ts, v FROM o UNION ALL SELECT ts, v FROM e WHERE v = 77;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
SELECT ts, SUM(v) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM o;
SELECT k, MAX(v) AS m FROM o GROUP BY k;
-- Calls of two frames go like those of one.
CREATE VIEW two_frames AS SELECT ts, k, v, w, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM e;
SELECT ts, v FROM two_frames;
SELECT ts, s FROM two_frames;
SELECT ts, n FROM two_frames;
SELECT SUM(v) AS s, COUNT(w) AS n FROM two_frames;
SELECT ts, v FROM two_frames WHERE v > 3;
SELECT SUM(1) AS s FROM two_frames;
-- COUNT of what is never NULL is COUNT(*), which reads nothing.
SELECT COUNT(1) AS n FROM two_frames;
SELECT COUNT('x') AS n, COUNT(*) AS m FROM o;
SELECT COUNT(1) AS n, COUNT(v) AS m FROM o;
SELECT k, COUNT(1) AS n FROM o GROUP BY k;
-- A filter keeps them if it stands right above them.
SELECT ts, v FROM (SELECT ts, v FROM two_frames) WHERE v > 3;
SELECT ts, v FROM (SELECT ts, v, n FROM two_frames) WHERE v > 3;
SELECT ts, v FROM two_frames WHERE TRUE;
SELECT ts, v FROM two_frames WHERE 1 = 1 AND 'a' = 'a';
WITH a AS (SELECT ts, v FROM two_frames) SELECT ts FROM a WHERE v = 2;
SELECT ts, n + 1 AS m FROM two_frames WHERE k = 'a';
-- A window of GROUP BY is a part of the aggregate, one of TABLE(…) takes whole rows.
SELECT TUMBLE_START(ts, INTERVAL '5' SECOND), COUNT(*), SUM(v) FROM o GROUP BY TUMBLE(ts, INTERVAL '5' SECOND);
SELECT HOP_START(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND), COUNT(*), SUM(v) FROM o WHERE v > 1 GROUP BY HOP(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND);
SELECT TUMBLE_START(ts, INTERVAL '5' SECOND), COUNT(*), MAX(n) FROM o GROUP BY TUMBLE(ts, INTERVAL '5' SECOND);
-- rowsort
SELECT k, SESSION_START(ts, INTERVAL '3' SECOND), COUNT(*), SUM(v) FROM two_frames GROUP BY SESSION(ts, INTERVAL '3' SECOND), k;
SELECT window_start, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
