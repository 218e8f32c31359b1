SET 'pipeline.auto-watermark-interval' = '0';
-- Flink forgets a key once the watermark is one and a half of the frame behind its rows: late rows find it new.
CREATE TABLE late (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/very_late.json', 'format' = 'json');
SELECT id, SUM(v) OVER w AS s, COUNT(*) OVER w AS n FROM late WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW);
SELECT id, MAX(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW) AS m FROM late;
SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM late;
