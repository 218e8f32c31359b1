CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id FROM t WHERE a = b;
SELECT id FROM t WHERE a < d;
SELECT id FROM t WHERE a = m OR b = d;
SELECT id FROM t WHERE f > m;
SELECT id FROM t WHERE ts > dt;
SELECT id FROM t WHERE ts >= '2024-01-01 00:00:00' AND dt < '2024-12-01';
SELECT id FROM t WHERE lt > TIMESTAMP '2024-01-01 00:00:00';
SELECT id FROM t WHERE ts = lt;
SELECT id FROM t WHERE s > 5;
-- differs: where a condition is FALSE without it, an operand of AND that fails does no harm, wherever it stands
SELECT id FROM t WHERE s > 5 AND id = 7;
SELECT id FROM t WHERE a = '10';
SELECT id FROM t WHERE bo = 1;
SELECT id FROM t WHERE bo > a;
SELECT id, a || s FROM t;
SELECT id, s || 'x' || 'y' FROM t WHERE id < 3;
SELECT id, a + s FROM t;
SELECT id, CONCAT('x', CAST(a AS STRING)) FROM t;
SELECT id, UPPER(a) FROM t;
SELECT id, SUBSTRING(s, m) FROM t;
SELECT id FROM t WHERE a BETWEEN 0 AND '9';
SELECT id FROM t WHERE id = 7.0 OR id = 1e0;
