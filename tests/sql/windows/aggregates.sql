SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

-- rowsort
SELECT k, COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, AVG(v) AS av FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, SUM(w) AS s, MIN(w) AS lo, MAX(w) AS hi, AVG(w) AS av FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT SUM(CAST(v AS BIGINT)) AS sb, AVG(CAST(v AS DOUBLE)) AS ad, SUM(CAST(w AS DOUBLE)) AS sd, MIN(CAST(v AS FLOAT)) AS mf FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT MIN(k) AS lo, MAX(k) AS hi, MIN(CAST(ts AS TIMESTAMP(3))) AS first_ts, MAX(CAST(ts AS TIMESTAMP(3))) AS last_ts FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT SUM(v) + COUNT(*) AS x, SUM(v) / COUNT(v) AS y, COUNT(*) * 1.5 AS z FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT SUM(v + 1) AS a1, SUM(v * w) AS vw, MAX(CHAR_LENGTH(k)) AS len FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, ok;
-- rowsort
SELECT k, ok, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k, ok;
-- rowsort
SELECT v % 2 AS parity, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, v % 2;
-- rowsort
SELECT UPPER(k) AS u, MAX(v) AS hi FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY UPPER(k), window_start, window_end;
SELECT CAST(window_start AS STRING) AS ws, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT COUNT(*) AS n, 'constant' AS c FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT MIN(ok) AS x FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
