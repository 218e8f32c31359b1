-- A key that is NULL has versions, too.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE w (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/null_keys.json', 'format' = 'json');
CREATE VIEW newest AS SELECT id, k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM w) WHERE n = 1;
-- materialized
SELECT a.id, b.id FROM w AS a JOIN newest FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k;
-- materialized
SELECT a.id, b.id FROM w AS a JOIN newest FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k WHERE a.k IS NOT NULL;
-- materialized
-- differs: IS NOT NULL keeps no NULL; Flink leaves it out where a join says before that the column equals something
SELECT a.id, c.id FROM (SELECT a.id, a.k, a.ts FROM w AS a JOIN newest FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k) AS a JOIN newest FOR SYSTEM_TIME AS OF a.ts AS c ON a.k = c.k WHERE a.k IS NOT NULL;
