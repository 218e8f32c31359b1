CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SET 'table.local-time-zone' = 'Europe/Berlin';
SELECT CAST(lt AS TIMESTAMP(3)) AS shown FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'GMT+02:00';
SELECT CAST(lt AS TIMESTAMP(3)) AS shown FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'UTC';
SELECT CAST(lt AS TIMESTAMP(3)) AS shown FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'GMT-11:00';
SELECT CAST(lt AS TIMESTAMP(3)) AS shown, UNIX_TIMESTAMP('1970-01-01 00:00:00') AS u FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'Mars/Olympus';
SELECT CAST(lt AS TIMESTAMP(3)) AS shown FROM t WHERE id = 4;
SET 'table.local-time-zone' = 'UTC';
SET 'pipeline.name' = 'a name';
SELECT id FROM t WHERE id = 1;
