SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

-- rowsort
SELECT k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT v, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, v;
-- rowsort
SELECT k, ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k, ok;
-- rowsort
SELECT COALESCE(k, 'none') AS key_name, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, COALESCE(k, 'none');
-- rowsort
SELECT k IS NULL AS no_key, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k IS NULL;
-- rowsort
SELECT w, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, w;
-- rowsort
SELECT CASE WHEN v > 5 THEN 'big' ELSE 'small' END AS size_class, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, CASE WHEN v > 5 THEN 'big' ELSE 'small' END;
