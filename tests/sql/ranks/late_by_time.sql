SET 'pipeline.auto-watermark-interval' = '0';
-- ORDER BY a time: a row behind the watermark waits for the next one, and is late where one of its time or later has left.
CREATE TABLE readings (device STRING, temp DOUBLE, hum INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/late_readings.json', 'format' = 'json');
CREATE TABLE h (id INT, v INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT ts, device FROM readings ORDER BY ts;
SELECT ts, temp, device FROM readings WHERE temp IS NOT NULL ORDER BY ts, temp DESC;
SELECT ts, hum FROM readings WHERE hum = 40 ORDER BY ts;
SELECT ts, device FROM readings WHERE device IS NULL OR device = 'b' ORDER BY ts, device DESC;
SELECT id, ts FROM h ORDER BY ts, id;
SELECT id, ts FROM h WHERE v > 2 ORDER BY ts, id DESC;
SELECT id, ts FROM h WHERE k = 'b' ORDER BY ts;
