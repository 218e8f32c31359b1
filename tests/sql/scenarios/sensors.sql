SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE readings (device STRING, temp DOUBLE, hum INT, ok BOOLEAN, vals ARRAY<INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/iot_readings.json', 'format' = 'json');
CREATE TABLE devices (device STRING, site STRING, max_temp DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/iot_devices.json', 'format' = 'json');

-- rowsort
SELECT device, window_start, AVG(temp) AS mean, MIN(temp) AS lowest, MAX(temp) AS highest, COUNT(temp) AS n FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY device, window_start, window_end;
-- rowsort
SELECT device, TUMBLE_START(ts, INTERVAL '1' MINUTE) AS start_at, SUM(CASE WHEN ok THEN 1 ELSE 0 END) AS good, SUM(CASE WHEN ok THEN 0 ELSE 1 END) AS bad FROM readings GROUP BY device, TUMBLE(ts, INTERVAL '1' MINUTE);
-- rowsort
SELECT device, ts, temp, LAG(temp) OVER (PARTITION BY device ORDER BY ts) AS before_it, temp - LAG(temp) OVER (PARTITION BY device ORDER BY ts) AS step FROM readings WHERE device IS NOT NULL;
-- rowsort
SELECT device, ts, AVG(temp) OVER (PARTITION BY device ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW) AS moving FROM readings;
-- rowsort
SELECT window_start, window_end, COUNT(DISTINCT device) AS alive FROM TABLE(CUMULATE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)) GROUP BY window_start, window_end;
-- materialized
SELECT d.site, COUNT(*) AS hot FROM readings AS r JOIN devices AS d ON r.device = d.device AND r.temp > d.max_temp GROUP BY d.site;
-- materialized
SELECT d.device, d.site, r.n FROM devices AS d LEFT JOIN (SELECT device, COUNT(*) AS n FROM readings GROUP BY device) AS r ON d.device = r.device;
SELECT device, MAX(temp) - MIN(temp) AS spread, AVG(hum) AS hum, COUNT(*) FILTER (WHERE temp < 0) AS frost FROM readings GROUP BY device HAVING COUNT(*) > 3;
SELECT device, COALESCE(temp, 0) AS temp, IF(hum > 44, 'wet', 'dry') AS air, ok IS TRUE AS good FROM readings WHERE ok IS NOT TRUE OR temp BETWEEN 20 AND 22;
-- rowsort
SELECT * FROM (SELECT device, temp, ts, ROW_NUMBER() OVER (PARTITION BY device ORDER BY ts) AS n FROM readings) WHERE n = 1;
SELECT device, temp FROM (SELECT device, temp, ROW_NUMBER() OVER (PARTITION BY device ORDER BY temp DESC NULLS LAST) AS n FROM readings) WHERE n <= 2;
SELECT device, v, o FROM readings CROSS JOIN UNNEST(vals) WITH ORDINALITY AS t (v, o);
SELECT device, SUM(v) AS total FROM readings LEFT JOIN UNNEST(vals) AS t (v) ON TRUE GROUP BY device;
-- rowsort
SELECT window_end, MAX(mean) AS hottest FROM (SELECT window_start, window_end, device, AVG(temp) AS mean FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, device) GROUP BY window_start, window_end;
-- rowsort
SELECT device, SESSION_START(ts, INTERVAL '20' SECOND) AS began, SESSION_END(ts, INTERVAL '20' SECOND) AS ended, COUNT(*) AS n FROM readings GROUP BY device, SESSION(ts, INTERVAL '20' SECOND);
-- materialized
SELECT device FROM readings WHERE temp > 30 INTERSECT SELECT device FROM devices WHERE max_temp IS NOT NULL;
-- materialized
SELECT device FROM devices EXCEPT SELECT device FROM readings;
-- rowsort
SELECT window_start, device, ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end, GROUPING SETS ((device), (ok), ());
SELECT STDDEV_POP(temp) AS dev, VAR_SAMP(temp) AS spread, FIRST_VALUE(device) AS first_device, LAST_VALUE(device) AS last_device FROM readings WHERE temp > 0;
SELECT CAST(FLOOR(ts TO MINUTE) AS STRING) AS m, device, COUNT(*) AS n FROM readings GROUP BY FLOOR(ts TO MINUTE), device;
SELECT device, ts, CURRENT_WATERMARK(ts) AS wm FROM readings WHERE CURRENT_WATERMARK(ts) IS NULL OR ts > CURRENT_WATERMARK(ts);
