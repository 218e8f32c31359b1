SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- materialized
SELECT ts FROM (SELECT DISTINCT ts FROM e) QUALIFY ROW_NUMBER() OVER (ORDER BY ts DESC) <= 2;
-- materialized
-- differs: two rows are left; Flink's second Top-N keeps what the first takes back
SELECT * FROM (SELECT ts FROM (SELECT DISTINCT ts FROM e) QUALIFY ROW_NUMBER() OVER (ORDER BY ts DESC) <= 2) ORDER BY ts DESC LIMIT 4;
