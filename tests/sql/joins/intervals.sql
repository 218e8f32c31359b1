SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE placed (id INT, who STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'path' = '${DATA}/placed.json', 'format' = 'json');
CREATE TABLE shipments (sid INT, oid INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shipments.json', 'format' = 'json');

-- rowsort
SELECT p.id, p.who, s.sid FROM placed p JOIN shipments s ON p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '5' SECOND;
-- rowsort
SELECT p.id, s.sid FROM placed p, shipments s WHERE p.id = s.oid AND p.`at` > s.`at` - INTERVAL '5' SECOND AND p.`at` <= s.`at`;
-- rowsort
SELECT p.id, p.who, s.sid FROM placed p LEFT JOIN shipments s ON p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '4' SECOND;
-- rowsort
SELECT p.who, s.sid FROM placed p RIGHT JOIN shipments s ON p.id = s.oid AND s.`at` >= p.`at` AND s.`at` < p.`at` + INTERVAL '10' SECOND;
-- rowsort
SELECT p.who, s.sid FROM placed p FULL JOIN shipments s ON p.id = s.oid AND p.`at` BETWEEN s.`at` - INTERVAL '5' SECOND AND s.`at` + INTERVAL '1' MINUTE AND s.sid <> 7;
-- rowsort
SELECT p.id, s.sid FROM placed p JOIN shipments s ON p.`at` = s.`at`;
-- rowsort
SELECT a.who, b.who FROM placed a JOIN placed b ON a.`at` BETWEEN b.`at` - INTERVAL '3' SECOND AND b.`at` - INTERVAL '1' SECOND;
CREATE VIEW near AS SELECT p.`at`, s.sid FROM placed p JOIN shipments s ON p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '5' SECOND;
-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE near, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT p.who, s.sid, q.who FROM placed p JOIN shipments s ON p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '5' SECOND JOIN placed q ON q.`at` BETWEEN s.`at` - INTERVAL '2' SECOND AND s.`at`;
-- rowsort
SELECT p.id, s.sid FROM placed p JOIN shipments s ON p.id = s.oid AND s.`at` < p.`at` + INTERVAL '5' SECOND;
-- materialized
SELECT COUNT(*) FROM (SELECT id, COUNT(*) AS n, MAX(`at`) AS m FROM placed GROUP BY id) p JOIN shipments s ON p.id = s.oid;
