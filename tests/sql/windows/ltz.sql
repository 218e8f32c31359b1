SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE i (ms BIGINT, k STRING, v INT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/instants.json', 'format' = 'json');
SELECT * FROM i;
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time;
SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS ws, TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS rt, SUM(v) AS s FROM i GROUP BY TUMBLE(ts, INTERVAL '1' HOUR);
SET 'table.local-time-zone' = 'America/New_York';
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, SUM(v) AS s FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '3' HOUR)) GROUP BY window_start, window_end, k;
SELECT TUMBLE_START(ts, INTERVAL '1' DAY) AS ws, TUMBLE_END(ts, INTERVAL '1' DAY) AS we, COUNT(*) AS n FROM i GROUP BY TUMBLE(ts, INTERVAL '1' DAY);
SET 'table.local-time-zone' = 'Asia/Kathmandu';
-- differs: no row is lost; Flink loses rows in zones whose offset is no whole hour
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
