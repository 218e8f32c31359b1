SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE p0 (t0 TIMESTAMP(0), id INT, WATERMARK FOR t0 AS t0 - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/precise.json', 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE p0, DESCRIPTOR(t0), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
CREATE TABLE p3 (t3 TIMESTAMP(3), id INT, WATERMARK FOR t3 AS t3 - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/precise.json', 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE p3, DESCRIPTOR(t3), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
CREATE TABLE p6 (t6 TIMESTAMP(6), id INT, WATERMARK FOR t6 AS t6 - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/precise.json', 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE p6, DESCRIPTOR(t6), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
CREATE TABLE p9 (t9 TIMESTAMP(9), id INT, WATERMARK FOR t9 AS t9 - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/precise.json', 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE p9, DESCRIPTOR(t9), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
CREATE TABLE whole (t0 TIMESTAMP(0), t3 TIMESTAMP(3), id INT, WATERMARK FOR t0 AS t0 - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/precise_times.json', 'format' = 'json');
-- differs: a column keeps its type
SELECT * FROM whole;
SELECT window_start, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE whole, DESCRIPTOR(t0), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time;
CREATE TABLE cast_down (t9 TIMESTAMP(9), id INT, rt AS CAST(t9 AS TIMESTAMP(3)), WATERMARK FOR rt AS rt)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/precise_times.json', 'format' = 'json');
SELECT window_start, MIN(t9) AS first_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE cast_down, DESCRIPTOR(rt), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
CREATE TABLE l3 (ts TIMESTAMP(3), id INT, n AS id * 2, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
SELECT window_start, SUM(n) AS s FROM TABLE(TUMBLE(TABLE l3, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
CREATE TABLE computed_time (text_ts STRING, ts6 TIMESTAMP(6), k STRING, v INT, rt AS TO_TIMESTAMP(text_ts), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/text_times.json', 'format' = 'json');
-- rowsort
SELECT window_start, k, SUM(v) AS s FROM TABLE(TUMBLE(TABLE computed_time, DESCRIPTOR(rt), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
SELECT rt, v FROM computed_time WHERE v > 1;
