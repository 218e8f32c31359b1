CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

CREATE TABLE o (b BIGINT, d DOUBLE, m DECIMAL(12, 1), s STRING, t9 TIMESTAMP(6))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/o', 'format' = 'json');
INSERT INTO o SELECT a, f, m, 'x', ts FROM t;
SELECT * FROM o;
INSERT INTO o SELECT s, d, m, s, ts FROM t;
INSERT INTO o SELECT a, d, m, a, ts FROM t;
INSERT INTO o SELECT a, d, m, s, s FROM t;
CREATE TABLE small (i INT, v VARCHAR(3), t0 TIMESTAMP(0), dt DATE)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/small', 'format' = 'json');
INSERT INTO small SELECT b, s, ts, dt FROM t;
INSERT INTO small SELECT a, s, ts, dt FROM t;
SELECT * FROM small;
INSERT INTO small SELECT a, s, ts, ts FROM t WHERE id = 1;
INSERT INTO small SELECT a, bo, ts, dt FROM t;
