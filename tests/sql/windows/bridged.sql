SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (id INT, ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/bridged.json', 'format' = 'json');
SELECT k, SESSION_START(ts, INTERVAL '5' SECOND) AS s, SESSION_END(ts, INTERVAL '5' SECOND) AS e, COUNT(DISTINCT v) AS n, MAX(v) AS m, AVG(v) AS a FROM e GROUP BY k, SESSION(ts, INTERVAL '5' SECOND);
SELECT k, SESSION_START(ts, INTERVAL '5' SECOND) AS s, COLLECT(v) AS l FROM e GROUP BY k, SESSION(ts, INTERVAL '5' SECOND);
