SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY GROUPING SETS ((window_start, window_end, k), (window_start, window_end, ok), (window_start, window_end));
-- rowsort
SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, GROUPING SETS ((k), (ok), ());
-- rowsort
SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, ROLLUP (k, ok);
-- rowsort
SELECT window_start, window_end, k, ok, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, CUBE (k, ok);
-- rowsort
SELECT window_start, window_end, k, GROUPING(k) AS g, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, GROUPING SETS ((k), ());
-- rowsort
SELECT window_start, k, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, ROLLUP (k);
-- rowsort
SELECT window_start, k, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, ROLLUP (k);
-- rowsort
SELECT DISTINCT window_start, window_end FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND));
-- rowsort
SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_end;
-- rowsort
SELECT window_start, window_end, window_time, k FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
-- rowsort
SELECT window_start, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start AS a, window_end AS z, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_end, window_start, TRUE;
-- rowsort
SELECT COUNT(DISTINCT k) AS a, SUM(DISTINCT v) AS b, COUNT(DISTINCT v) FILTER (WHERE ok) AS c, COUNT(*) FILTER (WHERE v > 2) AS d FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT COUNT(DISTINCT k) AS a, COUNT(DISTINCT v) AS b FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND));
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT * FROM e WHERE ok), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, LISTAGG(CAST(v AS STRING)) AS l FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT k, LISTAGG(CAST(v AS STRING), '/') AS l FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k;
