-- A topic is written, then read to its end of now.
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/one', 'format' = 'json');
CREATE TABLE log (
  ts TIMESTAMP(3), k STRING, v INT, place BIGINT METADATA FROM 'offset' VIRTUAL, key BYTES METADATA VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH (
  'connector' = 'topic', 'topic' = 'log', 'format' = 'json', 'key.fields' = 'k',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);
INSERT INTO log SELECT ts, k, v FROM t WHERE v <> 9;
INSERT INTO log SELECT ts, k, v + 1000 FROM t WHERE v = 3;
SELECT * FROM log WHERE v > 17;
SELECT window_start, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE log, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
