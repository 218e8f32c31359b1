-- Detection, many rules in one job: each is an INSERT, all read the events once.
-- A rule that is added, changed or deleted leaves the others alone.
-- sql run examples/sql/02_rule_set.sql -D DATA=examples/data -D OUT=out    (writes out/alerts)
CREATE TABLE events (
  ts TIMESTAMP(3),
  host STRING,
  os STRING,
  event_type STRING,
  `user` STRING,
  image STRING,
  command_line STRING,
  parent_image STRING,
  target_filename STRING,
  dst_port INT,
  protocol STRING
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

CREATE TABLE alerts (
  ts TIMESTAMP(3),
  rule STRING,
  severity STRING,
  host STRING,
  details STRING
) WITH ('connector' = 'filesystem', 'path' = '${OUT}/alerts', 'format' = 'json');

CREATE VIEW processes AS SELECT * FROM events WHERE event_type = 'process_creation';

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO alerts
  SELECT ts, 'lsass-memory-dump', 'critical', host, command_line FROM processes
  WHERE LOWER(image) LIKE '%\rundll32.exe' AND REGEXP(command_line, '(?i)comsvcs(\.dll)?,?\s+minidump');

  INSERT INTO alerts
  SELECT ts, 'registry-hive-saved', 'high', host, command_line FROM processes
  WHERE LOWER(command_line) LIKE 'reg.exe save hklm\%' AND NOT (LOWER(command_line) LIKE '%\software%');

  INSERT INTO alerts
  SELECT ts, 'shadow-copies-deleted', 'critical', host, command_line FROM processes
  WHERE LOWER(command_line) LIKE '%vssadmin%delete%shadows%';

  INSERT INTO alerts
  SELECT ts, 'remote-service', 'high', host, parent_image FROM processes
  WHERE image IN ('C:\Windows\PSEXESVC.exe', 'C:\Windows\PAExec.exe') AND `user` = 'NT AUTHORITY\SYSTEM';

  INSERT INTO alerts
  SELECT ts, 'scheduled-task', CASE WHEN command_line LIKE '%\Users\Public\%' THEN 'high' ELSE 'medium' END, host, command_line
  FROM processes
  WHERE LOWER(image) LIKE '%\schtasks.exe' AND command_line LIKE '%/create%';

  INSERT INTO alerts
  SELECT ts, 'cron-file', 'medium', host, target_filename FROM events
  WHERE event_type = 'file' AND os = 'linux' AND target_filename LIKE '/etc/cron.%';

  INSERT INTO alerts
  SELECT ts, 'unusual-port', 'low', host, image FROM events
  WHERE event_type = 'network' AND protocol = 'tcp' AND dst_port BETWEEN 8000 AND 9000 AND dst_port <> 8080;
END;
