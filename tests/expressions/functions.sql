CREATE TEMPORARY TABLE f (
  id INT, s STRING, u STRING, sep STRING, i INT, l BIGINT, d DOUBLE, n DECIMAL(10, 2), b BOOLEAN, dt DATE, tm TIME(0),
  ts TIMESTAMP(3), ltz TIMESTAMP_LTZ(3), a ARRAY<STRING>, ai ARRAY<INT>, m MAP<STRING, INT>, j STRING, path STRING,
  y BYTES, url STRING, ip STRING, t STRING
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/functions.json',
  'format' = 'json', 'json.timestamp-format.standard' = 'SQL');
