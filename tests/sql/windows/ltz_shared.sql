SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE i (ms BIGINT, k STRING, v INT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/instants.json', 'format' = 'json');
SET 'table.local-time-zone' = 'America/New_York';
-- rowsort
SELECT v, window_start, window_end, window_time FROM TABLE(HOP(TABLE i, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOUR));
-- rowsort
SELECT window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE i, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '3' HOUR)) GROUP BY window_start, window_end, window_time;
-- rowsort
SELECT window_start, window_end, SUM(v) AS s FROM TABLE(HOP(TABLE i, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE i, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(SESSION(TABLE i PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' HOUR)) GROUP BY k, window_start, window_end, window_time;
-- rowsort
SELECT v, window_start, window_end FROM TABLE(SESSION(TABLE i, DESCRIPTOR(ts), INTERVAL '30' MINUTE));
-- rowsort
SELECT HOP_START(ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR) AS ws, COUNT(*) AS n FROM i GROUP BY HOP(ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR);
-- rowsort
SELECT SESSION_START(ts, INTERVAL '2' HOUR) AS ws, SESSION_END(ts, INTERVAL '2' HOUR) AS we, COUNT(*) AS n FROM i GROUP BY SESSION(ts, INTERVAL '2' HOUR);
-- rowsort
SELECT * FROM (SELECT v, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS rn FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '2' HOUR))) WHERE rn = 1;
