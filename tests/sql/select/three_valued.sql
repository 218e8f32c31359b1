CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id, bo, NOT bo, bo AND TRUE, bo AND FALSE, bo OR TRUE, bo OR FALSE FROM t;
SELECT id, a > 5, a > 5 AND bo, a > 5 OR bo, NOT (a > 5 AND bo) FROM t;
SELECT id, bo AND CAST(NULL AS BOOLEAN), bo OR CAST(NULL AS BOOLEAN) FROM t;
SELECT id FROM t WHERE NOT (a > 5 AND b > 5);
SELECT id FROM t WHERE NOT (a > 5 OR b > 5);
SELECT id FROM t WHERE (a > 5) = bo;
SELECT id FROM t WHERE (a > 5) <> bo;
SELECT id FROM t WHERE bo = TRUE;
SELECT id FROM t WHERE (a = a) IS NOT TRUE;
SELECT id FROM t WHERE CASE WHEN a > 5 THEN bo ELSE b > 5 END;
SELECT id, a = NULL, NULL = a, a <> CAST(NULL AS INT) FROM t;
