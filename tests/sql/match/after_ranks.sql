-- Ranks within windows give rows that only come.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
-- rowsort
SELECT * FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price, ts, k, tax, s) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 3) MATCH_RECOGNIZE (ORDER BY window_time, n MEASURES A.price AS a, B.n AS b PATTERN (A B C) DEFINE C AS C.price > B.price);
-- rowsort
SELECT * FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price, ts, k, tax, s) AS n FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))) WHERE n <= 3) MATCH_RECOGNIZE (ORDER BY window_time, n MEASURES A.price AS a, B.n AS b PATTERN (A B C) DEFINE C AS C.price > B.price);
-- A column without a variable is that of the last row of all: NULL only where it may be NULL there.
CREATE VIEW c AS SELECT ts, k, price, COUNT(*) OVER (PARTITION BY k ORDER BY ts) AS n FROM t;
-- rowsort
SELECT * FROM c MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES n AS a, A.n AS b, LAST(n) AS d, FIRST(n, 1) AS e, n + 1 AS f, MAX(n) AS g, COUNT(B.price) AS h PATTERN (A B) DEFINE A AS A.price > 12);
