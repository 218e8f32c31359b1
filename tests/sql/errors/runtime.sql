CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT 10 / a FROM t;
SELECT id FROM t WHERE 10 / a > 1;
SELECT CAST(s AS INT) FROM t;
SELECT CAST(s AS DATE) FROM t;
SELECT 1 / 0;
SELECT CAST('x' AS INT);
SELECT id FROM t WHERE id < 3 AND CAST(s AS DOUBLE) > 0;
SELECT id FROM t WHERE id = 7 AND CAST(s AS DOUBLE) > 0;
-- differs: where a condition is FALSE without it, an operand of AND that fails does no harm, wherever it stands
SELECT id FROM t WHERE bo AND 10 / a > 0 AND id < 3;
SELECT id FROM t WHERE a <> 0 OR 1 / a > 0;
SELECT CASE WHEN id = 7 THEN CAST(s AS INT) ELSE 0 END FROM t;
-- differs: what is never evaluated cannot fail; Flink computes constants before it runs
SELECT COALESCE(a, 1 / 0) FROM t WHERE a IS NOT NULL;
