CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- Changes come row by row, those of one row by GROUPING_ID of all keys; sets that are there twice come one by one.
SELECT k, ok, COUNT(*) AS n, SUM(v) AS s FROM e GROUP BY GROUPING SETS ((k, ok), (k), ());
SELECT k, ok, COUNT(*) AS n FROM e GROUP BY GROUPING SETS ((), (k), (ok), (k, ok));
SELECT k, ok, v, COUNT(*) AS n, GROUPING_ID(k, ok, v) AS g FROM e WHERE v > 1 GROUP BY CUBE (k, ok, v);
SELECT ok, k, MAX(v) AS m FROM e GROUP BY GROUPING SETS ((k), (ok));
SELECT k, ok, MAX(v) AS m FROM e GROUP BY GROUPING SETS ((ok), (k));
-- rowsort
SELECT k, COUNT(*) AS n, GROUP_ID() AS g FROM e GROUP BY GROUPING SETS ((), (k), (k));
SELECT k, v, ok, SUM(w) AS s FROM e WHERE v < 4 GROUP BY ROLLUP (k, v), ROLLUP (ok);
SELECT k, ok, COUNT(k) AS n, SUM(v) AS s FROM e GROUP BY k, CUBE (ok) HAVING COUNT(*) < 3;
SELECT k, n, COUNT(*) AS c FROM (SELECT k, v, COUNT(*) AS n FROM e GROUP BY k, v) GROUP BY GROUPING SETS ((k), (n));
