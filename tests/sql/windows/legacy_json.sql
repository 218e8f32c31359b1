SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- differs: it is JSON; Flink forgets the quotes of texts in windows of GROUP BY
SELECT JSON_ARRAYAGG(k NULL ON NULL) AS a FROM e GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE);
-- rowsort
-- differs: it is JSON; Flink forgets the quotes of texts in windows of GROUP BY
SELECT k, JSON_OBJECTAGG(KEY CAST(ts AS STRING) VALUE k) AS o FROM e WHERE v > 2 GROUP BY k, SESSION(ts, INTERVAL '5' SECOND);
-- rowsort
SELECT k, JSON_ARRAYAGG(k) AS a FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end;
SELECT SUM(DISTINCT v) AS s FROM (SELECT v, window_start FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE (ts IS DISTINCT FROM TIMESTAMPADD(HOUR, v, ts)) IS UNKNOWN GROUP BY v, window_start, window_end);
