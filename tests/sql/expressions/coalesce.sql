CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id, COALESCE(a, 0), COALESCE(s, 'none'), COALESCE(a, b, -1) FROM t;
SELECT id, COALESCE(CAST(NULL AS INT), a), COALESCE(m, 0), COALESCE(a, 1.5) FROM t;
SELECT id, IFNULL(a, -1), IFNULL(s, 'x'), IF(bo, a, b), IF(a > 5, 'yes', 'no') FROM t;
SELECT id, NULLIF(a, 0), NULLIF(s, s) FROM t;
SELECT id FROM t WHERE COALESCE(a, 0) = 0;
SELECT id FROM t WHERE COALESCE(bo, a > 0, FALSE);
SELECT id, COALESCE(ts, TIMESTAMP '2000-01-01 00:00:00'), COALESCE(dt, DATE '2000-01-01') FROM t;
SELECT id, COALESCE(s, 1) FROM t;
SELECT id, COALESCE(d, a, m) FROM t;
