-- IoT: an alarm for each reading out of bounds, and for a sensor that gives none.
CREATE TABLE readings (
  ts TIMESTAMP(3),
  device STRING,
  celsius DOUBLE,
  humidity INT,
  fahrenheit AS celsius * 9 / 5 + 32
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/readings.csv', 'format' = 'csv', 'csv.null-literal' = '');

SELECT
  ts,
  device,
  celsius,
  fahrenheit > 150 AS dangerous,
  CASE
    WHEN celsius IS NULL THEN 'no value'
    WHEN celsius > 60 THEN 'too hot'
    WHEN humidity NOT BETWEEN 36 AND 58 THEN 'humidity'
  END AS alarm
FROM readings
WHERE celsius IS NULL OR celsius > 60 OR (humidity NOT BETWEEN 36 AND 58 AND device IN ('s-1', 's-2'));
