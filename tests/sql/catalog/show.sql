CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SHOW TABLES;
CREATE VIEW v AS SELECT id FROM t;
SHOW TABLES;
SHOW VIEWS;
SHOW CATALOGS;
SHOW DATABASES;
SHOW CURRENT CATALOG;
SHOW CURRENT DATABASE;
SELECT id FROM default_database.t WHERE id = 1;
CREATE TABLE here (x INT) WITH ('connector' = 'blackhole');
SHOW TABLES;
SHOW TABLES FROM default_database;
USE default_catalog.default_database;
SHOW TABLES LIKE 'nothing%';
SHOW VIEWS LIKE 'v';
DROP VIEW v;
SHOW TABLES;
SHOW TABLES LIKE 't%';
USE nowhere;
USE CATALOG default_catalog;
SHOW CURRENT DATABASE;
