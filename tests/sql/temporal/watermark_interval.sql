-- A watermark that is not that much ahead of the one before waits for that time: longer than the test runs.
SET 'pipeline.auto-watermark-interval' = '1 h';
CREATE TABLE r (id INT, g STRING, ts AS CAST(TIMESTAMPADD(MINUTE, id * 25, TIMESTAMP '2024-05-01 10:00:00') AS TIMESTAMP(3)), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE early (id INT, g STRING, ts AS TO_TIMESTAMP_LTZ(id * 1200000, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE each_row WITH ('scan.watermark.emit.strategy' = 'on-event') LIKE r;
SELECT id, ts, CURRENT_WATERMARK(ts) AS w FROM r;
SELECT id, CURRENT_WATERMARK(ts) AS w FROM early;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '20' MINUTE)) GROUP BY window_start, window_end;
SELECT id, COUNT(*) OVER (ORDER BY ts) AS n FROM r;
SELECT id, CURRENT_WATERMARK(ts) AS w FROM each_row;
SET 'pipeline.auto-watermark-interval' = '0';
SELECT id, CURRENT_WATERMARK(ts) AS w FROM r;
SET 'pipeline.auto-watermark-interval' = 'often';
SELECT id, CURRENT_WATERMARK(ts) AS w FROM r;
