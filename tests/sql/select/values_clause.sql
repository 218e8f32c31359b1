CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

VALUES (1, 'a'), (2, 'bcd');
SELECT * FROM (VALUES (1, 'a', TRUE), (2, 'bcd', FALSE)) AS v (x, y, z);
SELECT x + 1 AS x1 FROM (VALUES (1), (2), (3)) AS v (x) WHERE x > 1;
SELECT * FROM (VALUES (1, 1.5), (2.25, 3));
SELECT * FROM (VALUES (CAST(NULL AS INT), 'x'), (1, CAST(NULL AS STRING))) AS v (n, s);
SELECT v.n FROM (VALUES (1), (3000000000)) AS v (n);
SELECT * FROM (VALUES (DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00')) AS v (d, t);
SELECT n / 2, n % 2, n * 1.5 FROM (VALUES (7), (-7)) AS v (n);
SELECT * FROM (VALUES (1, 2), (3));
SELECT * FROM (VALUES ('a'), (1));
