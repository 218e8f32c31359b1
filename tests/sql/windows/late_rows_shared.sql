SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE strict (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE tight (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE strict, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE strict, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:00' GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, v FROM TABLE(HOP(TABLE strict, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND));
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE strict, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE strict, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:00' GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, v FROM TABLE(CUMULATE(TABLE strict, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND));
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE strict, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE strict, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:00' GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, v FROM TABLE(HOP(TABLE strict, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND));
-- rowsort
SELECT k, HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND) AS ws, COUNT(*) AS n, SUM(v) AS s FROM strict GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND), k;
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE tight, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE tight, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:00' GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, v FROM TABLE(HOP(TABLE tight, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND));
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE tight, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE tight, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:00' GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, v FROM TABLE(CUMULATE(TABLE tight, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND));
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE tight, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE tight, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:00' GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, v FROM TABLE(HOP(TABLE tight, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND));
-- rowsort
SELECT k, HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND) AS ws, COUNT(*) AS n, SUM(v) AS s FROM tight GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND), k;
