SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE strict (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SET 'table.exec.emit.late-fire.enabled' = 'true';
SET 'table.exec.emit.late-fire.delay' = '0 ms';
SET 'table.exec.emit.allow-lateness' = '10 s';
-- rowsort
SELECT TUMBLE_START(ts, INTERVAL '2' SECOND) AS ws, COUNT(*) AS n, SUM(v) AS s FROM strict GROUP BY TUMBLE(ts, INTERVAL '2' SECOND);
-- rowsort
SELECT k, TUMBLE_START(ts, INTERVAL '10' SECOND) AS ws, COUNT(*) AS n FROM strict GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
-- rowsort
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS ws, COUNT(*) AS n FROM strict GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);
-- rowsort
SELECT SESSION_START(ts, INTERVAL '2' SECOND) AS ws, SESSION_END(ts, INTERVAL '2' SECOND) AS we, COUNT(*) AS n FROM strict GROUP BY SESSION(ts, INTERVAL '2' SECOND);
SET 'table.exec.emit.late-fire.enabled' = 'false';
SET 'table.exec.emit.allow-lateness' = '0 ms';
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '0 ms';
-- rowsort
SELECT TUMBLE_START(ts, INTERVAL '2' SECOND) AS ws, COUNT(*) AS n, SUM(v) AS s FROM strict GROUP BY TUMBLE(ts, INTERVAL '2' SECOND);
-- rowsort
SELECT k, TUMBLE_START(ts, INTERVAL '10' SECOND) AS ws, COUNT(*) AS n FROM strict GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
-- rowsort
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS ws, COUNT(*) AS n FROM strict GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);
-- rowsort
SELECT SESSION_START(ts, INTERVAL '2' SECOND) AS ws, SESSION_END(ts, INTERVAL '2' SECOND) AS we, COUNT(*) AS n FROM strict GROUP BY SESSION(ts, INTERVAL '2' SECOND);
