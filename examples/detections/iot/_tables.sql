-- What devices measure and say, and what is known of each of them.
CREATE TABLE readings (
  ts TIMESTAMP(3),
  device STRING,
  metric STRING,       -- temperature, pressure, humidity …
  reading DOUBLE,
  now AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json');

CREATE TABLE device_events (
  ts TIMESTAMP(3),
  device STRING,
  event STRING,        -- online, offline, open, closed, command, confirmed, status
  command STRING,      -- of a command, and of what confirms it
  battery INT,         -- percent
  firmware STRING,     -- such as 2.14.1
  now AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'device_events', 'format' = 'json');

-- The last row of a device counts, and a record without a value takes it away.
CREATE TABLE devices (
  device STRING,
  site STRING,
  model STRING,
  low DOUBLE,          -- the bounds that its readings keep
  high DOUBLE,
  nominal DOUBLE,      -- the reading that it is adjusted to
  PRIMARY KEY (device) NOT ENFORCED
) WITH ('connector' = 'topic', 'topic' = 'devices', 'format' = 'json', 'upsert' = 'true');
