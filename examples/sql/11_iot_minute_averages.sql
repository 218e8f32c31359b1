-- IoT: averages of each device by the minute. A reading that comes over 30 seconds late is left out.
SET 'pipeline.auto-watermark-interval' = '0';

CREATE TABLE readings (
  ts TIMESTAMP(3),
  device STRING,
  celsius DOUBLE,
  humidity INT,
  WATERMARK FOR ts AS ts - INTERVAL '30' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/readings.csv', 'format' = 'csv', 'csv.null-literal' = '');

SELECT
  window_start,
  device,
  COUNT(*) AS readings,
  COUNT(celsius) AS values_read,
  MIN(celsius) AS coldest,
  MAX(celsius) AS hottest,
  AVG(humidity) AS humidity
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, device;
