CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id, a + 1, a - 1, a * 2, a / 3, a % 3 FROM t;
SELECT id, b + 1, b * 2, b / 3, -b FROM t;
SELECT id, d + 1, d * 2, d / 4, -d FROM t;
SELECT id, f + 1, f * 2, a + f, b * d FROM t;
SELECT id, m + 1, m * 2, m / 3, m - 0.005, m % 5 FROM t;
SELECT id, a + b, a * b, a + m, a * m, b / m FROM t WHERE m <> 0;
SELECT id, MOD(a, 4), ABS(a), ABS(d), POWER(a, 2), SQRT(ABS(d)) FROM t;
SELECT id, FLOOR(d), CEIL(d), ROUND(d, 1), ROUND(m, 1), ROUND(a, -1) FROM t;
SELECT id, CAST(a AS TINYINT), CAST(a AS SMALLINT), CAST(a AS TINYINT) + CAST(100 AS TINYINT) FROM t;
SELECT 1 / 2, 7 / 2, -7 / 2, -7 % 3, 7 % -3, 1.0 / 3, 2 / 3.0;
SELECT 1 + 2 * 3 - 4 / 2, (1 + 2) * (3 - 4), 10 - 4 - 3, 100 / 10 / 2;
SELECT 2147483647 + 1, -2147483648 - 1, 9223372036854775807 + 1;
SELECT id, d = -d, d > -1e300, 1e308 * 10 * d FROM t WHERE id IN (1, 2, 4);
SELECT id, GREATEST(a, 5, id), LEAST(a, 5), GREATEST(d, id) FROM t;
SELECT id, EXP(0), LN(1), LOG10(100),  a - id - 1 FROM t WHERE id = 1;
