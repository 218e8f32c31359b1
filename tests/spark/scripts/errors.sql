-- Rows in error end a statement, or are set aside.
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/one', 'format' = 'json');
CREATE TABLE broken (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/broken.json', 'format' = 'json');
CREATE TABLE missing (k STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/nothing', 'format' = 'json');
CREATE VIEW counts AS SELECT window_start, k, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k;

SELECT k, v FROM broken;
SELECT k, 10 / v FROM t;
SELECT k, 10 / (n - 4) FROM counts;
SELECT k FROM missing;
SET 'job.on-error' = 'dead-letter';
SELECT k, v FROM broken;
SELECT k, 10 / v FROM t;
SELECT k, 10 / (n - 4) FROM counts;
