SET 'pipeline.auto-watermark-interval' = '0';
-- LIMIT 1 by a time is no deduplication: it takes late rows, and of rows with the same time the first.
CREATE TABLE h (id INT, v INT, k STRING, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT id, ts FROM h ORDER BY ts LIMIT 1;
SELECT id, ts FROM h ORDER BY ts DESC LIMIT 1;
SELECT id, ts FROM h ORDER BY ts ASC NULLS LAST LIMIT 1;
SELECT id, ts FROM h ORDER BY ts LIMIT 1 OFFSET 1;
SELECT id, ts FROM h ORDER BY ts, id DESC LIMIT 1;
SELECT id FROM h ORDER BY p LIMIT 1;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts) n FROM h) WHERE n = 1;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts DESC) n FROM h) WHERE n = 1;
SELECT id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY p DESC) n FROM h) WHERE n = 1;
SELECT id, ts FROM (SELECT id, ts FROM h ORDER BY ts LIMIT 1) WHERE id > 2;
SELECT COUNT(*) FROM (SELECT id, ts FROM h ORDER BY ts LIMIT 1);
SELECT id, COUNT(*) FROM (SELECT id, ts FROM h ORDER BY ts LIMIT 1) GROUP BY id;
SELECT j.ts FROM (SELECT ts, window_start, window_end, v FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND))) j WHERE EXISTS (SELECT 1 FROM (SELECT v, window_start, window_end FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND))) w WHERE j.v = w.v AND j.window_start = w.window_start AND j.window_end = w.window_end) ORDER BY ts LIMIT 1;
