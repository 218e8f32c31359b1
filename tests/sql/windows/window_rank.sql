SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v NULLS LAST) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY w DESC) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn = 1;
-- rowsort
SELECT k, v FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, k) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 3;
-- rowsort
SELECT k, v, rn FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY k, v) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC) AS rn FROM (SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k)) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS rn FROM (SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k)) WHERE rn < 3;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY w DESC) AS rn FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE rn <= 1;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY w DESC) AS rn FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE rn <= 1;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY w DESC) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn BETWEEN 2 AND 3;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY w DESC) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 2 AND v > 5;
-- rowsort
SELECT * FROM (SELECT ts, k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ts) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn = 1;
-- rowsort
SELECT * FROM (SELECT ts, k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ts DESC) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn = 1;
-- rowsort
SELECT ts, k, v, window_start FROM (SELECT ts, k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) AS rn FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE rn = 1;
-- rowsort
SELECT window_start, window_end, SUM(v) AS s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn = 1 GROUP BY window_start, window_end;
-- rowsort
SELECT k, v, window_start FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) = 1;
-- rowsort
SELECT * FROM (SELECT k, v, w, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC) AS rn FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))) WHERE rn = 1;
-- rowsort
-- differs: each session has its own ranks; Flink takes those of several keys that end together for one
SELECT x, window_start, window_end, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ts) AS n FROM TABLE(SESSION((SELECT ts, x FROM e CROSS JOIN UNNEST(ARRAY[v, 0]) AS u (x)) PARTITION BY x, DESCRIPTOR(ts), INTERVAL '5' SECOND))) WHERE n <= 1;
