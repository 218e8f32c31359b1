SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE strict (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE tight (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE strict PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE strict PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND));
-- rowsort
SELECT SESSION_START(ts, INTERVAL '1' SECOND) AS ws, SESSION_END(ts, INTERVAL '1' SECOND) AS we, COUNT(*) AS n FROM strict GROUP BY SESSION(ts, INTERVAL '1' SECOND);
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE strict PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE strict PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND));
-- rowsort
SELECT SESSION_START(ts, INTERVAL '2' SECOND) AS ws, SESSION_END(ts, INTERVAL '2' SECOND) AS we, COUNT(*) AS n FROM strict GROUP BY SESSION(ts, INTERVAL '2' SECOND);
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE strict PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE strict PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND));
-- rowsort
SELECT SESSION_START(ts, INTERVAL '5' SECOND) AS ws, SESSION_END(ts, INTERVAL '5' SECOND) AS we, COUNT(*) AS n FROM strict GROUP BY SESSION(ts, INTERVAL '5' SECOND);
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE tight PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE tight PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND));
-- rowsort
SELECT SESSION_START(ts, INTERVAL '1' SECOND) AS ws, SESSION_END(ts, INTERVAL '1' SECOND) AS we, COUNT(*) AS n FROM tight GROUP BY SESSION(ts, INTERVAL '1' SECOND);
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE tight PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE tight PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND));
-- rowsort
SELECT SESSION_START(ts, INTERVAL '2' SECOND) AS ws, SESSION_END(ts, INTERVAL '2' SECOND) AS we, COUNT(*) AS n FROM tight GROUP BY SESSION(ts, INTERVAL '2' SECOND);
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE tight PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, v, window_start, window_end FROM TABLE(SESSION(TABLE tight PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND));
-- rowsort
SELECT SESSION_START(ts, INTERVAL '5' SECOND) AS ws, SESSION_END(ts, INTERVAL '5' SECOND) AS we, COUNT(*) AS n FROM tight GROUP BY SESSION(ts, INTERVAL '5' SECOND);
