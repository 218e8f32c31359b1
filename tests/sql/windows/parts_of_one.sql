SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '7' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- Two parts of one table together: no window is over before both have given it their rows.
CREATE VIEW pair AS SELECT ts, k, v FROM e WHERE v > 1 OR v IS NULL UNION ALL SELECT ts, k, v + 100 AS v FROM e WHERE v < 13 OR v IS NULL;
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE pair, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE pair, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM pair;
