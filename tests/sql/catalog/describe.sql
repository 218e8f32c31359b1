CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

DESCRIBE t;
DESC e;
DESCRIBE default_catalog.default_database.t;
CREATE VIEW v (x, y) AS SELECT id + 1, s FROM t;
DESCRIBE v;
CREATE VIEW w AS SELECT ts, v, CAST(ts AS STRING) AS text_ts FROM e;
DESCRIBE w;
DESCRIBE nowhere;
CREATE TABLE p (id INT, s VARCHAR(5) NOT NULL, c CHAR(2), m DECIMAL(38, 18), PRIMARY KEY (id, s) NOT ENFORCED) WITH ('connector' = 'blackhole');
DESCRIBE p;
CREATE TABLE pt (id INT, pt AS PROCTIME()) WITH ('connector' = 'blackhole');
DESCRIBE pt;
