SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT * FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND));
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s, AVG(w) AS aw, MIN(v) AS lo, MAX(w) AS hi FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, window_time, k;
-- rowsort
SELECT window_start, window_end, k, COUNT(DISTINCT v) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '2' SECOND, SIZE => INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND, INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM (SELECT * FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) WHERE window_end >= TIMESTAMP '2024-05-01 10:00:10') GROUP BY window_start, window_end;
-- rowsort
SELECT window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_end;
-- rowsort
SELECT window_start FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND));
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
