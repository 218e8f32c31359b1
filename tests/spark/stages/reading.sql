SET 'execution.target' = 'spark';
CREATE TABLE past (host STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'past', 'format' = 'json');
CREATE TABLE followed (host STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'log', 'format' = 'json', 'source.follow' = 'true');
CREATE TABLE made (host STRING, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '100');
CREATE TABLE endless (host STRING, v INT) WITH ('connector' = 'datagen');
CREATE TABLE counts (host STRING, e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE rows_of (host STRING, v INT) WITH ('connector' = 'blackhole');
-- Tasks read what has an end, by the options of the table.
EXPLAIN INSERT INTO counts SELECT host, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE past, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end;
EXPLAIN INSERT INTO counts SELECT host, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE followed, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end;
EXPLAIN INSERT INTO rows_of SELECT host, v FROM made UNION ALL SELECT host, v FROM endless;
-- A query gives its rows to whoever asks.
EXPLAIN SELECT host, SUM(v) FROM made GROUP BY host ORDER BY host LIMIT 3;
