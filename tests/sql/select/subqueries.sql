CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT x, y FROM (SELECT id AS x, a AS y FROM t) WHERE y > 0;
SELECT x FROM (SELECT id AS x FROM (SELECT * FROM t WHERE bo) WHERE a > 5);
SELECT z + 1 AS zz FROM (SELECT x * 2 AS z FROM (SELECT id AS x FROM t) WHERE x > 2) WHERE z < 12;
SELECT q.s, q.n FROM (SELECT s, CHAR_LENGTH(s) AS n FROM t) AS q WHERE q.n > 3;
SELECT x, x + 1 AS y FROM (SELECT a / 2 AS x FROM t) WHERE x IS NOT NULL;
SELECT * FROM (SELECT id, CASE WHEN a = 0 THEN 0 ELSE 100 / a END AS q FROM t) WHERE q > 5;
SELECT c FROM (SELECT 'k' AS c, id FROM t) WHERE id = 1 AND c = 'k';
SELECT id FROM (SELECT id, s FROM t WHERE a > 0) WHERE s LIKE '%a%';
SELECT u.id, u.a FROM (SELECT * FROM t) AS u WHERE u.id BETWEEN 2 AND 4;
SELECT * FROM (SELECT id, a AS x, a AS y FROM t) AS q WHERE x = y;
