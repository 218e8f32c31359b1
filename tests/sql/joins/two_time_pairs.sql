-- WHERE compares the time of a third table with those of two others: one pair bounds the join, the other filters.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE placed (id INT, who STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'path' = '${DATA}/placed.json', 'format' = 'json');
CREATE TABLE shipments (sid INT, oid INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shipments.json', 'format' = 'json');

-- rowsort
SELECT p.id, s.sid, q.id FROM (placed p JOIN shipments s ON p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '20' SECOND) JOIN placed q ON TRUE WHERE q.`at` BETWEEN p.`at` - INTERVAL '9' SECOND AND p.`at` + INTERVAL '9' SECOND AND q.`at` BETWEEN s.`at` - INTERVAL '3' SECOND AND s.`at`;
-- rowsort
SELECT p.id, s.sid, q.id FROM (placed p JOIN shipments s ON p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '20' SECOND) JOIN placed q ON q.`at` BETWEEN p.`at` - INTERVAL '9' SECOND AND p.`at` + INTERVAL '9' SECOND AND q.`at` BETWEEN s.`at` - INTERVAL '3' SECOND AND s.`at`;
-- rowsort
SELECT p.id, s.sid, q.id FROM placed p, shipments s, placed q WHERE p.id = s.oid AND s.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '20' SECOND AND q.`at` BETWEEN s.`at` - INTERVAL '3' SECOND AND s.`at` AND q.`at` BETWEEN p.`at` AND p.`at` + INTERVAL '4' SECOND;
