SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id, lt, CAST(lt AS TIMESTAMP(3)), CAST(lt AS STRING), CAST(lt AS DATE) FROM t;
SELECT id, CAST(ts AS TIMESTAMP_LTZ(3)) FROM t;
SELECT id FROM t WHERE lt = ts;
SELECT id FROM t WHERE lt > TIMESTAMP '2024-02-28 18:00:00';
SELECT TO_TIMESTAMP_LTZ(1710054000000, 3), CAST(TO_TIMESTAMP_LTZ(1710054000000, 3) AS STRING), FROM_UNIXTIME(0);
SELECT id, DATE_FORMAT(lt, 'yyyy-MM-dd HH:mm'), FLOOR(lt TO DAY), CEIL(lt TO DAY), EXTRACT(HOUR FROM lt) FROM t WHERE id IN (1, 3, 6);
-- differs: the day in which summer time began has a midnight of its own; Flink is an hour off
SELECT id, FLOOR(lt TO DAY) FROM t WHERE id = 5;
SELECT UNIX_TIMESTAMP('1970-01-01 00:00:00'), CAST(TIMESTAMP '2024-03-10 02:30:00' AS TIMESTAMP_LTZ(3)), CAST(TIMESTAMP '2024-11-03 01:30:00' AS TIMESTAMP_LTZ(3));
SET 'table.local-time-zone' = 'Asia/Kolkata';
SELECT id, CAST(lt AS STRING) FROM t WHERE id < 5;
SET 'table.local-time-zone' = 'UTC';
SELECT id, CAST(lt AS STRING) FROM t WHERE id < 5;
