SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, window_time, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
-- rowsort
SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, `OFFSET` => INTERVAL '7' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '-3' SECOND)) GROUP BY window_start, window_end;
SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND));
SELECT window_start, ts, v FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE v > 5;
SELECT window_end, COUNT(v) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
SELECT w.window_start, w.k FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS w WHERE w.ok;
