SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE p (ts TIMESTAMP(3), v INT, WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE VIEW goods AS SELECT ts AS tt, k, v + 1 AS v1, ok FROM e WHERE v IS NOT NULL;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE v > 1;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE k = 'a';
-- rowsort
SELECT window_start, window_end, SUM(v1) AS s FROM TABLE(HOP(TABLE goods, DESCRIPTOR(tt), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE ok GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, k, SUM(v1) AS s FROM TABLE(CUMULATE((SELECT tt, k, v1 FROM goods), DESCRIPTOR(tt), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start, TIMESTAMPDIFF(SECOND, window_start, window_end) AS len, COUNT(*) + 1 AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_end, MAX(window_start) AS m, COUNT(window_time) AS c FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, UPPER(k) AS u, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, UPPER(k) HAVING COUNT(*) > 1;
-- rowsort
SELECT window_start, window_end, COUNT(DISTINCT k) AS dk, COUNT(DISTINCT v) FILTER (WHERE ok) AS dv, SUM(v) FILTER (WHERE v > 4) AS s FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, STDDEV_POP(v) AS sd, VAR_SAMP(v) AS va, AVG(CAST(v AS DOUBLE)) AS av FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, CUBE (k, ok);
-- rowsort
SELECT window_start, n FROM (SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end) WHERE n > 2;
-- rowsort
SELECT * FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k) WHERE window_start >= TIMESTAMP '2024-05-01 10:00:00';
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM (SELECT *, v * 2 AS d FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE d > 8 GROUP BY window_start, window_end;
-- rowsort
SELECT a, b, SUM(v) AS s FROM (SELECT window_start AS a, window_end AS b, v FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE window_time > TIMESTAMP '2024-05-01 10:00:05') GROUP BY a, b;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM (SELECT * FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '10' SECOND)) UNION ALL SELECT * FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '10' SECOND))) GROUP BY window_start, window_end;
-- differs: a row of UNION ALL counts for each branch; Flink takes two equal branches below a window function for one
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT ts, v FROM p UNION ALL SELECT ts, v FROM p), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS we, COUNT(DISTINCT v) AS n, SUM(v) FILTER (WHERE ok) AS s FROM e GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), k;
-- rowsort
SELECT k, ok, SESSION_START(ts, INTERVAL '5' SECOND) AS s, COUNT(*) AS n FROM e GROUP BY k, ok, SESSION(ts, INTERVAL '5' SECOND);
-- rowsort
SELECT window_start, window_end, k, SUM(n) AS n FROM (SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k, ok) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, COUNT(*) AS n FROM (SELECT k, window_start FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) GROUP BY k;
-- rowsort
SELECT window_start, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end HAVING SUM(v) > 10 AND window_start < TIMESTAMP '2024-05-01 10:00:30';
-- rowsort
SELECT a.window_start, a.n, b.s FROM (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) a JOIN (SELECT window_start, window_end, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) b ON a.window_start = b.window_start AND a.window_end = b.window_end;
-- rowsort
SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE ok GROUP BY window_start, window_end, k HAVING COUNT(*) > 1;
-- rowsort
SELECT COUNT(*) AS n, COUNT(k) AS nk FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start, window_end, COLLECT(k) AS ks FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, CASE WHEN v > 4 THEN 'big' ELSE 'small' END AS c, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, CASE WHEN v > 4 THEN 'big' ELSE 'small' END;
