-- Alerts to a topic, where other jobs and programs read them. With `sql run … --data ./data` the topic is kept:
-- `sql topic read alerts --data ./data` shows it.
CREATE TABLE events (
  ts TIMESTAMP(3),
  host STRING,
  event_type STRING,
  command_line STRING
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

CREATE TABLE alerts (
  ts TIMESTAMP(3),
  host STRING,
  rule STRING,
  command_line STRING
) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json', 'key.fields' = 'host');

INSERT INTO alerts
SELECT ts, host, 'encoded-command', command_line FROM events
WHERE event_type = 'process_creation' AND command_line LIKE '% -enc %';
