SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM e) WHERE n <= 2;
SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM e) WHERE n <= 2;
SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY ok ORDER BY v, k DESC) AS n FROM e) WHERE n > 1 AND n < 4;
-- differs: Flink takes the first row of an order for one that never changes, and its result keeps rows that another has replaced
SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY w DESC NULLS LAST, k) AS n FROM e) WHERE n = 1 AND v > 0;
SELECT k, v, w FROM e ORDER BY w DESC, k LIMIT 3;
SELECT k, v, w FROM e ORDER BY v, w, k LIMIT 2 OFFSET 1;
SELECT k, v FROM e LIMIT 3;
SELECT k FROM e ORDER BY CHAR_LENGTH(k), v LIMIT 2;
SELECT k AS a, v + 1 AS b FROM e ORDER BY b DESC, 1 LIMIT 2;
-- materialized
SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k) ORDER BY n DESC, k LIMIT 2;
SELECT k, s, r FROM (SELECT k, s, ROW_NUMBER() OVER (ORDER BY s, k) AS r FROM (SELECT k, MIN(v) AS s FROM e GROUP BY k)) WHERE r <= 2;
-- differs: Flink takes the first row of an order for one that never changes, and its result keeps rows that another has replaced
SELECT k, v FROM e QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1;
SELECT DISTINCT k FROM e ORDER BY k LIMIT 2;
-- differs: Flink refuses a rank without an upper bound; here it is a filter like others
SELECT * FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM e) WHERE n >= 2;
SELECT k FROM e ORDER BY v;
SELECT k, v FROM e FETCH FIRST 2 ROWS ONLY;
