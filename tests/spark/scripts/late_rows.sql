-- Late rows in several files of different lengths, which take turns.
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/many', 'format' = 'json');

SELECT window_start, k, COUNT(*), SUM(v), MIN(ts)
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;

-- Without a key all windows are in one partition.
SELECT window_end, COUNT(*), AVG(v)
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '7' SECOND)) WHERE v > 3 GROUP BY window_start, window_end;
