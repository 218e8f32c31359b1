SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE l (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE r (ts TIMESTAMP(3), k STRING, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/others.json', 'format' = 'json');
CREATE VIEW lw AS SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '10' SECOND));
CREATE VIEW rw AS SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '10' SECOND));
-- rowsort
SELECT * FROM lw a WHERE EXISTS (SELECT * FROM rw b WHERE a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end);
-- rowsort
SELECT * FROM lw a WHERE NOT EXISTS (SELECT * FROM rw b WHERE a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end);
-- rowsort
SELECT * FROM lw a WHERE a.k IN (SELECT k FROM rw b WHERE a.window_start = b.window_start AND a.window_end = b.window_end);
