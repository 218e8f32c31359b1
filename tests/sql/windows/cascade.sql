SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

CREATE VIEW per_10 AS
-- rowsort
SELECT window_start AS ws, window_end AS we, window_time AS wt, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
-- rowsort
SELECT * FROM per_10;
SELECT window_start, window_end, SUM(n) AS n, SUM(s) AS s FROM TABLE(TUMBLE(TABLE per_10, DESCRIPTOR(wt), INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, k, SUM(n) AS n FROM TABLE(TUMBLE(TABLE per_10, DESCRIPTOR(wt), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, window_end, SUM(n) AS total FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k) GROUP BY window_start, window_end;
SELECT TUMBLE_START(rt, INTERVAL '20' SECOND) AS ws, SUM(n) AS n FROM (SELECT TUMBLE_ROWTIME(ts, INTERVAL '10' SECOND) AS rt, COUNT(*) AS n FROM e GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)) GROUP BY TUMBLE(rt, INTERVAL '20' SECOND);
SELECT TUMBLE_END(wt, INTERVAL '20' SECOND) AS we, MAX(n) AS most FROM per_10 GROUP BY TUMBLE(wt, INTERVAL '20' SECOND);
CREATE VIEW windowed AS SELECT window_start AS a, window_end AS z, k, v FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE v IS NOT NULL;
SELECT a, z, COUNT(*) AS n FROM windowed GROUP BY a, z;
-- rowsort
SELECT a, k, SUM(v) AS s FROM windowed WHERE k <> 'b' GROUP BY a, z, k;
