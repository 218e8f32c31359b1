CREATE TABLE e (k STRING, v INT, p AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SELECT k, COUNT(*) AS n FROM e GROUP BY k, TUMBLE(p, INTERVAL '1' HOUR);
SELECT k, TUMBLE_START(p, INTERVAL '1' HOUR) AS ws, TUMBLE_PROCTIME(p, INTERVAL '1' HOUR) AS wp, COUNT(*) AS n FROM e GROUP BY k, TUMBLE(p, INTERVAL '1' HOUR);
SELECT k, COUNT(*) AS n FROM e GROUP BY k, HOP(p, INTERVAL '1' HOUR, INTERVAL '2' HOUR);
SELECT k, SESSION_END(p, INTERVAL '1' HOUR) AS we, COUNT(*) AS n FROM e GROUP BY k, SESSION(p, INTERVAL '1' HOUR);
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(p), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(p), INTERVAL '1' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end, window_time;
SELECT k, window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(p), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end;
