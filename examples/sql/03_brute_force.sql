-- Detection over time: an address that fails to log in ten times or more within a minute.
CREATE TABLE logins (
  ts TIMESTAMP(3),
  host STRING,
  event_type STRING,
  `user` STRING,
  src_ip STRING,
  outcome STRING,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

SELECT window_start, window_end, host, src_ip, failures, last_try
FROM (
  SELECT window_start, window_end, host, src_ip, COUNT(*) AS failures, MAX(ts) AS last_try
  FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
  WHERE event_type = 'authentication' AND outcome = 'failure'
  GROUP BY window_start, window_end, host, src_ip
)
WHERE failures >= 10;
