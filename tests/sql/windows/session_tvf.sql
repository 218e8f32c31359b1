SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT * FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND));
-- rowsort
SELECT * FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND));
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s, AVG(w) AS aw FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end, window_time;
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT k, ok, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY (k, ok), DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, ok, window_start, window_end;
-- rowsort
SELECT k, ok, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, ok, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, ok, window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, ok, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, ok, window_start, window_end;
-- rowsort
SELECT k, window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start;
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(DATA => TABLE e PARTITION BY k, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '4' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, SUM(v) AS s FROM (SELECT * FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE v > 1) GROUP BY k, window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, SUM(v) AS s FROM (SELECT * FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE window_end > TIMESTAMP '2024-05-01 10:00:08') GROUP BY k, window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, COUNT(DISTINCT v) AS n, COUNT(*) FILTER (WHERE ok) AS f FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '0' SECOND));
-- rowsort
SELECT window_start FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '5' SECOND));
-- rowsort
SELECT window_start FROM TABLE(SESSION(TABLE e PARTITION BY nothing, DESCRIPTOR(ts), INTERVAL '5' SECOND));
