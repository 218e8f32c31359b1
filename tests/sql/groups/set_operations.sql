CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE m (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
-- materialized
SELECT k FROM e UNION SELECT k FROM m;
-- materialized
SELECT k, v FROM e INTERSECT SELECT k, v FROM e WHERE v > 1;
-- materialized
SELECT k FROM e INTERSECT ALL SELECT k FROM e WHERE v > 1;
-- materialized
SELECT k, v FROM e EXCEPT SELECT k, v FROM e WHERE v > 2;
-- materialized
SELECT k FROM e EXCEPT ALL SELECT k FROM e WHERE v > 1;
-- materialized
SELECT v FROM e EXCEPT SELECT CAST(v AS BIGINT) FROM m;
-- materialized
SELECT k FROM e UNION ALL SELECT k FROM m UNION SELECT 'z';
-- materialized
(SELECT k FROM e EXCEPT SELECT 'a') INTERSECT SELECT k FROM m;
-- materialized
SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k) EXCEPT SELECT 'a', CAST(2 AS BIGINT);
SELECT k FROM e UNION SELECT v FROM e;
SELECT k FROM e INTERSECT SELECT k, v FROM e;
