CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT nothing FROM t;
SELECT u.id FROM t;
SELECT id FROM nowhere;
SELECT id FROM t WHERE nothing = 1;
SELECT NO_SUCH_FUNCTION(id) FROM t;
SELECT UPPER() FROM t;
SELECT UPPER(s, s) FROM t;
SELECT ABS(s) FROM t;
SELECT id AS FROM t;
SELECT id FROM t WHERE;
SELECT FROM t;
SELEC id FROM t;
SELECT id FROM t WHERE (a > 1;
SELECT id FROM t WHERE s = 'open;
