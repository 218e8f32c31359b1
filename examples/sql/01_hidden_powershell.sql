-- Detection, one rule: PowerShell that hides its window or its text.
-- sql run examples/sql/01_hidden_powershell.sql -D DATA=examples/data
CREATE TABLE events (
  ts TIMESTAMP(3),
  host STRING,
  event_type STRING,
  `user` STRING,
  image STRING,
  command_line STRING,
  parent_image STRING
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

SELECT ts, host, `user`, command_line
FROM events
WHERE event_type = 'process_creation'
  AND LOWER(image) LIKE '%\powershell.exe'
  AND (LOWER(command_line) LIKE '%-w hidden%' OR REGEXP(command_line, '(?i)-e(nc|ncodedcommand)?\s+[a-z0-9+/=]{20,}'))
  AND parent_image IS NOT NULL;
