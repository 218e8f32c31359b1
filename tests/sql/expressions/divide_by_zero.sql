CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id, 1 / a FROM t;
SELECT id, d / 0 FROM t;
SELECT id, CASE WHEN a <> 0 THEN 100 / a END FROM t;
SELECT id, CASE WHEN a = 0 THEN -1 ELSE 100 / a END FROM t;
SELECT id FROM t WHERE a <> 0 AND 100 / a >= 10;
SELECT id, IF(a = 0, 0, 100 / a) FROM t;
SELECT id, m / a FROM t WHERE id = 4;
SELECT id, a % 0 FROM t;
SELECT id FROM t WHERE 1 / a > 0;
