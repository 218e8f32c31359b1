CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT k, ok, COUNT(*) AS n, SUM(v) AS s FROM e GROUP BY GROUPING SETS ((k, ok), (k), ());
-- rowsort
SELECT k, ok, COUNT(*) AS n, GROUPING(k) AS gk, GROUPING(ok) AS go, GROUPING_ID(k, ok) AS g FROM e GROUP BY ROLLUP (k, ok);
-- rowsort
SELECT k, ok, MAX(v) AS m, GROUPING_ID(ok, k) AS g FROM e GROUP BY CUBE (k, ok);
-- rowsort
SELECT k, v, COUNT(v) AS n, SUM(v) AS s FROM e GROUP BY GROUPING SETS ((k), (v));
-- rowsort
SELECT ok, k, COUNT(*) AS n FROM e GROUP BY ok, GROUPING SETS ((k), ()) HAVING COUNT(*) > 1;
-- rowsort
SELECT k, COUNT(*) AS n, GROUP_ID() AS g FROM e GROUP BY GROUPING SETS ((k), (k), ());
SELECT k, GROUPING(k) AS g, COUNT(*) AS n FROM e GROUP BY k;
-- rowsort
SELECT k, ok, SUM(CASE WHEN v > 1 THEN 1 ELSE 0 END) AS s, MAX('x') AS m FROM e GROUP BY ROLLUP (k, ok);
-- rowsort
-- differs: equal rows of two sets are one to DISTINCT; Flink takes the columns of all sets for a key where NULL may be a value, too
SELECT DISTINCT k, ok FROM (SELECT k, ok, COUNT(*) AS n FROM e GROUP BY ROLLUP (k, ok)) WHERE k = 'a' OR k IS NULL;
-- Two columns that are the same call.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE same (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
-- rowsort
-- differs: Flink takes columns that are the same call for one, which is in all sets that have one of them (with other sets it fails)
SELECT a, b, COUNT(*) FROM (SELECT v, ROW_NUMBER() OVER (ORDER BY ts) AS a, ROW_NUMBER() OVER (ORDER BY ts) AS b FROM same WHERE v > 4) GROUP BY GROUPING SETS ((a, b, v), (b), ());
