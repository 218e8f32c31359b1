-- Windows of GROUP BY over what the query itself leaves empty.
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- differs: there is no window; Flink takes the group for that of all rows
SELECT COUNT(*) AS n FROM e WHERE FALSE GROUP BY SESSION(ts, INTERVAL '2' SECOND);
SELECT k, COUNT(*) AS n FROM e WHERE v IS DISTINCT FROM v GROUP BY k, TUMBLE(ts, INTERVAL '2' SECOND);
-- differs: there is no window; Flink takes the group for that of all rows
SELECT 1 AS a FROM (SELECT SESSION_START(ts, INTERVAL '2' SECOND) AS s, COUNT(*) AS n FROM e WHERE FALSE GROUP BY SESSION(ts, INTERVAL '2' SECOND));
