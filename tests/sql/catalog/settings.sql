CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SET 'table.local-time-zone' = 'Europe/Berlin';
SELECT CAST(lt AS TIMESTAMP(3)) AS local FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'GMT+02:00';
SELECT CAST(lt AS TIMESTAMP(3)) AS local FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'UTC';
SELECT CAST(lt AS TIMESTAMP(3)) AS local FROM t WHERE id = 4;
SET 'pipeline.name' = 'a name';
SELECT id FROM t WHERE id = 1;
