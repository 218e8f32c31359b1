-- Ranks within windows give rows that only come.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
-- rowsort
SELECT * FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price, ts, k, tax, s) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 3) MATCH_RECOGNIZE (ORDER BY window_time, n MEASURES A.price AS a, B.n AS b PATTERN (A B C) DEFINE C AS C.price > B.price);
-- rowsort
SELECT * FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price, ts, k, tax, s) AS n FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))) WHERE n <= 3) MATCH_RECOGNIZE (ORDER BY window_time, n MEASURES A.price AS a, B.n AS b PATTERN (A B C) DEFINE C AS C.price > B.price);
