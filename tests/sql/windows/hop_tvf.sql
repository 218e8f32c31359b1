SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT * FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s, AVG(w) AS aw, MIN(v) AS lo, MAX(w) AS hi FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
-- rowsort
SELECT window_start, k, COUNT(DISTINCT v) AS n, SUM(v) FILTER (WHERE ok) AS s FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '2' SECOND, SIZE => INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(DATA => TABLE e, SIZE => INTERVAL '6' SECOND, `OFFSET` => INTERVAL '1' SECOND, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '2' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND, INTERVAL '-2' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, SUM(v) AS s FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM (SELECT * FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE window_start >= TIMESTAMP '2024-05-01 10:00:05') GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM (SELECT * FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE k <> 'a') WHERE v > 1 GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start;
-- rowsort
SELECT DISTINCT window_start, window_end, k FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
-- rowsort
SELECT window_start FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND));
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND));
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
