-- Rows that join sessions: what each had comes in the order of Flink, whatever batches the rows come in.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, s STRING, d DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/joined_sessions.json', 'format' = 'json');
SELECT k, SESSION_START(ts, INTERVAL '10' SECOND) AS a, LISTAGG(s) AS l, SUM(d) AS t FROM e GROUP BY k, SESSION(ts, INTERVAL '10' SECOND);
SELECT k, SESSION_START(ts, INTERVAL '10' SECOND) AS a, ARRAY_AGG(s) AS l, COUNT(*) AS n FROM e GROUP BY k, SESSION(ts, INTERVAL '10' SECOND);
SELECT SESSION_START(ts, INTERVAL '9' SECOND) AS a, LISTAGG(s) AS l, AVG(d) AS t FROM e GROUP BY SESSION(ts, INTERVAL '9' SECOND);
SELECT k, window_start, window_end, LISTAGG(s) AS l, SUM(d) AS t FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
SELECT window_start, LISTAGG(s) AS l, ARRAY_AGG(d) AS t FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '9' SECOND)) GROUP BY window_start, window_end;
