SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE strict (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE patient (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE tight (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE nothing_late (ts TIMESTAMP(3), k STRING, v INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE strict, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE strict, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE patient, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE patient, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE tight, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE tight, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE nothing_late, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '2' SECOND) AS ws, COUNT(*) AS n FROM strict GROUP BY TUMBLE(ts, INTERVAL '2' SECOND);
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE strict, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end;
