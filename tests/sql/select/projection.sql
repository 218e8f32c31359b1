CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT * FROM t;
SELECT id, a, s FROM t;
SELECT id AS `select`, a AS b, b AS a FROM t;
SELECT t.*, id + 1 AS next_id FROM t;
SELECT a, a, a AS a0 FROM t;
SELECT id, 'const', 1, TRUE, CAST(NULL AS STRING) AS nothing FROM t;
SELECT `t`.`id`, default_catalog.default_database.t.a FROM t;
SELECT u.id FROM t AS u;
SELECT u.x, u.y FROM (SELECT id, a FROM t) AS u (x, y);
SELECT id + 0, -id, - -id, +id FROM t;
SELECT 1 AS x, 'a' AS y;
SELECT (id), ((a)), (id) + 0, +a, - -a FROM t WHERE id < 3;
SELECT 1;
