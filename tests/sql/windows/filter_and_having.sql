SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

-- rowsort
SELECT k, COUNT(*) FILTER (WHERE ok) AS yes, COUNT(*) FILTER (WHERE NOT ok) AS nope, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT SUM(v) FILTER (WHERE k = 'a') AS sa, MAX(w) FILTER (WHERE v > 100) AS nothing FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k HAVING COUNT(*) > 1;
-- rowsort
SELECT k, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k HAVING SUM(v) > 4 AND k IS NOT NULL;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end HAVING window_start < TIMESTAMP '2024-05-01 10:00:20';
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE ok GROUP BY window_start, window_end;
-- rowsort
SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE k IN ('a', 'b') AND v IS NOT NULL GROUP BY window_start, window_end, k;
-- rowsort
SELECT * FROM (SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k) WHERE n > 1;
-- rowsort
SELECT k, COUNT(*) FILTER (WHERE v > 4) + COUNT(*) FILTER (WHERE v <= 4) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, MAX(v) AS hi FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k HAVING MAX(v) IS NULL OR MIN(w) < 0;
