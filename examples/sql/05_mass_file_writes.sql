-- Detection over time, with Flink's older window syntax: a program that writes more than 20 files within ten seconds.
CREATE TABLE files (
  ts TIMESTAMP(3),
  host STRING,
  event_type STRING,
  pid INT,
  image STRING,
  target_filename STRING,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

SELECT * FROM (
  SELECT
    TUMBLE_START(ts, INTERVAL '10' SECOND) AS since,
    host,
    image,
    COUNT(*) AS files,
    SUM(CASE WHEN target_filename LIKE '%.locked' THEN 1 ELSE 0 END) AS locked
  FROM files
  WHERE event_type = 'file'
  GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), host, pid, image
)
WHERE files > 20;
