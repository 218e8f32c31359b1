CREATE TABLE t (id INT, ts TIMESTAMP(3), lt TIMESTAMP_LTZ(3))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/early.json', 'format' = 'json');
SELECT * FROM t;
SELECT id, ts + INTERVAL '1' DAY, ts - INTERVAL '0.001' SECOND FROM t;
SELECT id FROM t WHERE ts < TIMESTAMP '1970-01-01 00:00:00';
SELECT id, CAST(ts AS STRING), DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSS') FROM t;
-- differs: a time before 1970 lies in the day, hour and second that its text says; Flink rounds towards 1970
SELECT id, CAST(ts AS DATE), CAST(ts AS TIME(0)), CAST(ts AS TIMESTAMP(0)) FROM t;
-- differs: a time before 1970 lies in the day, hour and second that its text says; Flink rounds towards 1970
SELECT id, YEAR(ts), MONTH(ts), DAYOFMONTH(ts), HOUR(ts), MINUTE(ts), SECOND(ts) FROM t;
-- differs: a time before 1970 lies in the day, hour and second that its text says; Flink rounds towards 1970
SELECT id, FLOOR(ts TO MONTH), CEIL(ts TO HOUR) FROM t;
