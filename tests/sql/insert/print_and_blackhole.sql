CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

CREATE TABLE printed (id INT, s STRING) WITH ('connector' = 'print');
CREATE TABLE hole (id INT, s STRING) WITH ('connector' = 'blackhole');
INSERT INTO hole SELECT id, s FROM t;
INSERT INTO hole SELECT id FROM t;
INSERT INTO hole SELECT s, id FROM t;
INSERT INTO nowhere SELECT id, s FROM t;
INSERT INTO hole SELECT id, s FROM t WHERE 1 / a > 0;
SELECT * FROM hole;
SELECT * FROM printed;
INSERT INTO t SELECT * FROM hole;
CREATE VIEW v AS SELECT id, s FROM t;
INSERT INTO v SELECT id, s FROM t;
