-- IoT: how many devices of a site went offline within five minutes, and how low their batteries were.
CREATE TABLE status (
  ts TIMESTAMP(3),
  device STRING,
  site STRING,
  state STRING,
  battery INT,
  WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/status.csv', 'format' = 'csv');

SELECT
  TUMBLE_START(ts, INTERVAL '5' MINUTE) AS since,
  TUMBLE_END(ts, INTERVAL '5' MINUTE) AS until,
  site,
  COUNT(*) AS offline,
  SUM(CASE WHEN battery < 20 THEN 1 ELSE 0 END) AS low_battery,
  MIN(battery) AS lowest
FROM status
WHERE LOWER(TRIM(state)) = 'offline'
GROUP BY TUMBLE(ts, INTERVAL '5' MINUTE), site;
