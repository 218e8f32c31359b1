-- ORDER BY without LIMIT in a query that another one takes its rows from says nothing, and drops nothing.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE h (id INT, v INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT id, ts FROM (SELECT * FROM h ORDER BY ts) WHERE v > 3;
SELECT k, COUNT(*) FROM (SELECT * FROM h ORDER BY ts) GROUP BY k;
SELECT * FROM (SELECT id, v FROM h ORDER BY v);
SELECT * FROM (SELECT id, v FROM h ORDER BY ts);
SELECT * FROM (SELECT id, v FROM h ORDER BY v DESC LIMIT 2);
WITH q AS (SELECT id, v FROM h ORDER BY v) SELECT * FROM q WHERE v > 5;
CREATE VIEW w AS SELECT id, ts FROM h ORDER BY ts;
SELECT * FROM w;
-- rowsort
SELECT id FROM h WHERE v IN (SELECT v FROM h ORDER BY v);
-- rowsort
SELECT id FROM h WHERE EXISTS (SELECT 1 FROM h ORDER BY v);
-- rowsort
(SELECT id FROM h ORDER BY v) UNION ALL (SELECT v FROM h ORDER BY ts);
SELECT * FROM ((SELECT id FROM h ORDER BY ts));
(SELECT id FROM h ORDER BY ts);
-- rowsort
SELECT x.id FROM (SELECT * FROM h ORDER BY ts) x JOIN h y ON x.id = y.id;
SELECT id, v FROM h ORDER BY v;
WITH q AS (SELECT id, ts FROM h) SELECT id FROM q ORDER BY ts;
SELECT id FROM (SELECT id, ts FROM h ORDER BY ts OFFSET 2);
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE((SELECT * FROM h ORDER BY ts), DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT id, ts FROM (SELECT * FROM h ORDER BY ts) ORDER BY ts;
