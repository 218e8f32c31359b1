CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id FROM t WHERE a IN (10, 0);
SELECT id FROM t WHERE a NOT IN (10, 0);
SELECT id, a IN (10, CAST(NULL AS INT)), a NOT IN (10, CAST(NULL AS INT)) FROM t;
SELECT id, a IN (1, NULL) FROM t;
SELECT id FROM t WHERE s IN ('apple', '', 'Éclair');
SELECT id FROM t WHERE s NOT IN ('apple', '');
SELECT id FROM t WHERE a IN (b, 3, id + 6);
SELECT id FROM t WHERE m IN (1.1, 12.34);
-- differs: 0.0 and -0.0 are equal, as they are to =
SELECT id FROM t WHERE d IN (0, 1.5);
SELECT id FROM t WHERE b IN (7, -1);
SELECT id FROM t WHERE dt IN (DATE '2024-02-28', DATE '1970-01-01');
SELECT id FROM t WHERE ts IN (TIMESTAMP '1970-01-01 00:00:00', TIMESTAMP '2024-12-31 12:00:00');
SELECT id FROM t WHERE bo IN (TRUE);
SELECT id FROM t WHERE a IN (10);
SELECT id FROM t WHERE s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'apple');
SELECT id FROM t WHERE a NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0);
SELECT id FROM t WHERE a IN ('10');
SELECT id FROM t WHERE a IN ('10', '3');
SELECT id FROM t WHERE a IN (10, '3');
SELECT id FROM t WHERE a IN ('10', 'x');
SELECT id FROM t WHERE a IN ('x');
SELECT id FROM t WHERE s IN (10, 42);
SELECT id FROM t WHERE s IN (42);
SELECT id, a IN ('10', '3') FROM t;
SELECT id FROM t WHERE m IN ('1.1', '12.34');
SELECT id FROM t WHERE 10 IN (a, b);
SELECT id FROM t WHERE a IN ();
