CREATE TABLE late (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SELECT a, n8x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY a ASC) AS n8x FROM (SELECT MAX(k) AS a FROM late)) WHERE n8x <= 3;
-- materialized
SELECT n, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY n) AS r FROM (SELECT COUNT(*) AS n FROM late GROUP BY k)) WHERE r <= 2;
SELECT n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY n) AS r FROM (SELECT COUNT(*) AS n FROM late GROUP BY k)) WHERE r <= 2;
