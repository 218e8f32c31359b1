-- Detection: rules of several kinds of events brought into one form, with a severity.
CREATE TABLE events (
  ts TIMESTAMP(3),
  host STRING,
  event_type STRING,
  `user` STRING,
  image STRING,
  command_line STRING,
  target_filename STRING,
  dst_ip STRING,
  dst_port INT,
  dst_host STRING,
  src_ip STRING,
  outcome STRING
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

WITH found AS (
  SELECT ts, host, 'public-folder-program' AS rule, image AS subject FROM events
  WHERE event_type = 'process_creation' AND image LIKE 'C:\Users\Public\%'
  UNION ALL
  SELECT ts, host, 'memory-dump-file', target_filename FROM events
  WHERE event_type = 'file' AND REGEXP(LOWER(target_filename), '\\temp\\[^\\]+\.(dmp|hiv)$')
  UNION ALL
  SELECT ts, host, 'login-from-outside', src_ip FROM events
  WHERE event_type = 'authentication' AND outcome = 'success' AND src_ip NOT LIKE '10.%'
  UNION ALL
  SELECT ts, host, 'known-bad-host', TRIM(UPPER(dst_host)) FROM events
  WHERE dst_host IN ('cdn-static-update.com', 'free-wifi-login.net')
)
SELECT
  ts,
  host,
  rule,
  subject,
  CASE rule
    WHEN 'memory-dump-file' THEN 'critical'
    WHEN 'login-from-outside' THEN 'high'
    WHEN 'known-bad-host' THEN 'high'
    ELSE 'medium'
  END AS severity
FROM found;
