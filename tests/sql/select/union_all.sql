CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

CREATE TABLE more (id BIGINT, a BIGINT, s STRING, m DECIMAL(5, 1))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
-- rowsort
SELECT id, a FROM t UNION ALL SELECT id, a FROM more;
-- rowsort
SELECT id, m FROM more UNION ALL SELECT id, m FROM t;
-- rowsort
SELECT s FROM t UNION ALL SELECT s FROM more UNION ALL SELECT 'constant';
-- rowsort
SELECT id, 'fixed' AS src FROM t UNION ALL SELECT id, 'x' FROM more;
-- rowsort
SELECT x FROM (SELECT a AS x FROM t UNION ALL SELECT a FROM more) WHERE x > 5;
-- rowsort
SELECT id FROM t WHERE bo UNION ALL SELECT id FROM t WHERE NOT bo;
-- rowsort
SELECT a AS n FROM t UNION ALL SELECT d FROM t;
-- rowsort
SELECT m FROM t UNION ALL SELECT a FROM t;
-- rowsort
SELECT f FROM t UNION ALL SELECT m FROM t;
-- rowsort
(SELECT id FROM t WHERE id = 1 UNION ALL SELECT id FROM more) UNION ALL SELECT a FROM t;
SELECT id FROM t UNION ALL SELECT s FROM t;
SELECT id, a FROM t UNION ALL SELECT id FROM t;
-- rowsort
SELECT ts FROM t UNION ALL SELECT TIMESTAMP '2024-01-01 00:00:00.123456';
-- rowsort
SELECT CAST(NULL AS INT) AS n UNION ALL SELECT id FROM t WHERE id < 3;
