SET 'pipeline.auto-watermark-interval' = '0';
-- Windows of one table joined with one another: rows come to both sides in the order of the table, so each is late by its own time.
CREATE TABLE readings (device STRING, temp DOUBLE, hum INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/late_readings.json', 'format' = 'json');
CREATE VIEW warm AS SELECT * FROM readings WHERE temp > 18;
-- rowsort
SELECT l.device, l.ts, r.ts FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '4' SECOND)) l JOIN TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '4' SECOND)) r ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.device = r.device;
-- rowsort
SELECT l.device, l.ts, r.ts FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND)) l LEFT JOIN TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND)) r ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.device = r.device AND l.temp > r.temp;
-- rowsort
SELECT l.device, l.ts FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '4' SECOND)) l WHERE NOT EXISTS (SELECT 1 FROM (SELECT * FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '4' SECOND)) WHERE temp > 20) r WHERE l.window_start = r.window_start AND l.window_end = r.window_end AND l.device = r.device);
-- rowsort
SELECT l.device, l.ts, r.ts FROM TABLE(TUMBLE(TABLE warm, DESCRIPTOR(ts), INTERVAL '4' SECOND)) l FULL JOIN TABLE(TUMBLE(TABLE warm, DESCRIPTOR(ts), INTERVAL '4' SECOND)) r ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.device = r.device AND l.ts < r.ts;
-- rowsort
SELECT l.device, l.ts, r.ts FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) l JOIN TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) r ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.device = r.device AND l.ts < r.ts;
