CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

WITH c AS (SELECT id, a FROM t WHERE a > 0) SELECT * FROM c;
WITH c (x, y) AS (SELECT id, a FROM t) SELECT y, x FROM c WHERE x < 3;
WITH c AS (SELECT id, a FROM t), d AS (SELECT id + 100 AS id, a FROM c WHERE a IS NOT NULL) SELECT id, a FROM d;
WITH t AS (SELECT 1 AS id) SELECT * FROM t;
SELECT * FROM (WITH c AS (SELECT id FROM t WHERE id < 3) SELECT id * 10 AS ten FROM c);
-- rowsort
WITH c AS (SELECT id FROM t WHERE id < 3) SELECT id FROM c UNION ALL SELECT id * 10 FROM c;
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a), c AS (SELECT x + 1 AS x FROM b) SELECT x FROM c;
WITH c AS (SELECT id FROM t) SELECT id FROM nowhere;
