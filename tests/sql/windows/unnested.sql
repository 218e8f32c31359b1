SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE VIEW w AS SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND));
-- rowsort
SELECT window_start, x, COUNT(*) AS n FROM w CROSS JOIN UNNEST(ARRAY[v, 0, v + 1]) AS u (x) GROUP BY window_start, window_end, x;
-- rowsort
SELECT window_start, window_end, window_time, o, SUM(x) AS s FROM w LEFT JOIN UNNEST(ARRAY[v, 0]) WITH ORDINALITY AS u (x, o) ON TRUE GROUP BY window_start, window_end, window_time, o;
-- rowsort
SELECT window_end, window_start, k, x, n FROM (SELECT window_start, window_end, k, x, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY x DESC, k) AS n FROM w CROSS JOIN UNNEST(ARRAY[v, 0]) AS u (x)) WHERE n <= 2;
-- rowsort
SELECT s, x, SUM(n) AS n FROM (SELECT window_start AS s, window_end AS f, x, COUNT(*) AS n FROM w CROSS JOIN UNNEST(ARRAY[v, 0]) AS u (x) WHERE x IS NOT NULL GROUP BY window_start, window_end, x) GROUP BY s, f, x;
-- rowsort
SELECT window_start, key, COUNT(*) AS n FROM (SELECT window_start, window_end, key FROM w CROSS JOIN UNNEST(MAP['a', v, 'b', 1]) AS u (key, item)) GROUP BY window_start, window_end, key;
CREATE VIEW s AS SELECT * FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND));
-- rowsort
SELECT window_start, k, COUNT(*) AS n FROM s CROSS JOIN UNNEST(ARRAY[v, 0]) AS u (x) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, k, x, COUNT(*) AS n FROM s CROSS JOIN UNNEST(ARRAY[v, 0]) AS u (x) GROUP BY window_start, window_end, k, x;
-- rowsort
SELECT window_start, window_end, x, COUNT(*) AS n FROM s CROSS JOIN UNNEST(ARRAY[v, 0]) AS u (x) GROUP BY window_start, window_end, x;
