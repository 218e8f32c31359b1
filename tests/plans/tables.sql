-- The tables that the plans are about.
CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING, d DOUBLE, bo BOOLEAN) WITH ('connector' = 'topic');
CREATE TABLE u (a INT, b BIGINT NOT NULL, s STRING, d DOUBLE, bo BOOLEAN) WITH ('connector' = 'topic');
CREATE TABLE e (k STRING, v INT, ts TIMESTAMP(3), low AS LOWER(k), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'topic');
CREATE TABLE c (k STRING, v INT, low AS LOWER(k), r AS RAND()) WITH ('connector' = 'topic');
CREATE TABLE m (k STRING, `offset` BIGINT METADATA VIRTUAL, `partition` INT METADATA FROM 'shard', v INT) WITH ('connector' = 'topic');
CREATE TABLE sink (a BIGINT, s STRING, n STRING) WITH ('connector' = 'topic');
CREATE VIEW v AS SELECT a, LOWER(s) AS low, b + 1 AS b1 FROM t;
CREATE TABLE files (hr INT, id INT, v STRING, dy STRING) PARTITIONED BY (dy, hr) WITH ('connector' = 'filesystem', 'path' = 'files', 'format' = 'csv');
CREATE TABLE timed (id INT, dy STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) PARTITIONED BY (dy) WITH ('connector' = 'filesystem', 'path' = 'files', 'format' = 'csv');
CREATE TABLE stored (id BIGINT, name STRING, price DOUBLE, born DATE, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:stored.db', 'table-name' = 'stored');
