SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE VIEW hops AS SELECT window_start AS ws, window_end AS we, window_time AS wt, k, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
CREATE VIEW sessions AS SELECT window_start AS ws, window_end AS we, window_time AS wt, k, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, window_time, k;
-- rowsort
SELECT ws, we, SUM(n) AS n, COUNT(*) AS c FROM hops GROUP BY ws, we;
-- rowsort
SELECT ws, we, SUM(n) AS n, COUNT(*) AS c FROM sessions GROUP BY ws, we;
-- rowsort
SELECT window_start, window_end, SUM(n) AS n FROM TABLE(HOP(TABLE hops, DESCRIPTOR(wt), INTERVAL '10' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE(TABLE sessions, DESCRIPTOR(wt), INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT ws, MAX(n) AS n FROM hops GROUP BY ws;
-- rowsort
SELECT window_start, window_end, k, SUM(n) AS n FROM TABLE(CUMULATE(TABLE hops, DESCRIPTOR(wt), INTERVAL '10' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
