-- Joins by time, what follows them, and joins of windows.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE clicks (id INT, u STRING, n INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_clicks.json');
CREATE TABLE shows (sid INT, u STRING, m INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '2' SECOND) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_shows.json');
CREATE TABLE plain (id INT, u STRING, n INT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_clicks.json');
CREATE TABLE plain2 (sid INT, u STRING, m INT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_shows.json');
CREATE TABLE zoned (zid INT, u STRING, `at` TIMESTAMP(3), z AS CAST(`at` AS TIMESTAMP_LTZ(3)), WATERMARK FOR z AS z) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_shows.json');

-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '5' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c LEFT JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '5' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c RIGHT JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '5' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c FULL JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` - INTERVAL '1' SECOND AND s.`at` + INTERVAL '2' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c FULL JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` - INTERVAL '10' SECOND AND s.`at` + INTERVAL '10' SECOND AND c.n > s.m;
-- materialized
SELECT c.id, s.sid FROM clicks c LEFT JOIN shows s ON c.u = s.u AND c.`at` = s.`at`;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u IS NOT DISTINCT FROM s.u AND c.`at` >= s.`at` AND c.`at` < s.`at` + INTERVAL '3' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c LEFT JOIN shows s ON c.u IS NOT DISTINCT FROM s.u AND c.`at` >= s.`at` AND c.`at` < s.`at` + INTERVAL '3' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.`at` BETWEEN s.`at` - INTERVAL '1' SECOND AND s.`at` + INTERVAL '1' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c LEFT JOIN shows s ON c.`at` BETWEEN s.`at` - INTERVAL '1' SECOND AND s.`at` + INTERVAL '1' SECOND AND s.m > 2;
-- materialized
SELECT c.id, s.sid FROM clicks c, shows s WHERE c.u = s.u AND s.`at` BETWEEN c.`at` - INTERVAL '3' SECOND AND c.`at` AND c.n <> s.m;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u WHERE s.`at` <= c.`at` AND s.`at` >= c.`at` - INTERVAL '3' SECOND;
-- materialized
SELECT c.id, s.sid, c.`at`, s.`at` AS shown FROM clicks c JOIN shows s ON c.u = s.u AND c.`at` > s.`at` AND c.`at` < s.`at` + INTERVAL '6' SECOND;
-- materialized
SELECT a.id, b.id FROM clicks a JOIN clicks b ON a.u = b.u AND a.`at` BETWEEN b.`at` + INTERVAL '1' SECOND AND b.`at` + INTERVAL '10' SECOND;
-- materialized
SELECT a.id, b.id FROM clicks a LEFT JOIN clicks b ON a.u = b.u AND b.`at` BETWEEN a.`at` - INTERVAL '9' SECOND AND a.`at` AND a.id <> b.id;
CREATE VIEW near AS SELECT c.id, s.sid, c.u, c.`at`, s.`at` AS shown FROM clicks c JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '5' SECOND;
-- materialized
SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE near, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- materialized
SELECT window_start, u, COUNT(*) AS c FROM TABLE(HOP(TABLE near, DESCRIPTOR(shown), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, u;
CREATE VIEW left_near AS SELECT c.id, s.sid, c.u, c.`at`, s.`at` AS shown FROM clicks c LEFT JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '5' SECOND;
-- materialized
SELECT window_start, COUNT(*) AS c, COUNT(sid) AS d FROM TABLE(TUMBLE(TABLE left_near, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- materialized
SELECT n.id, n.sid, c.id FROM near n JOIN clicks c ON n.u = c.u AND c.`at` BETWEEN n.`at` AND n.`at` + INTERVAL '10' SECOND;
-- materialized
SELECT n.id, n.sid, c.id FROM left_near n LEFT JOIN clicks c ON n.u = c.u AND c.`at` BETWEEN n.`at` AND n.`at` + INTERVAL '10' SECOND;
-- materialized
SELECT u, COUNT(*) AS c FROM near GROUP BY u;
-- materialized
SELECT id, sid FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY `at`) AS r FROM near) WHERE r = 1;
-- materialized
SELECT p.id, q.sid FROM plain p JOIN plain2 q ON p.u = q.u AND p.p BETWEEN q.p - INTERVAL '1' HOUR AND q.p + INTERVAL '1' HOUR;
-- materialized
SELECT p.id, q.sid FROM plain p LEFT JOIN plain2 q ON p.u = q.u AND p.p BETWEEN q.p - INTERVAL '1' HOUR AND q.p + INTERVAL '1' HOUR;
-- materialized
SELECT p.id, q.sid FROM plain p FULL JOIN plain2 q ON p.u = q.u AND p.p BETWEEN q.p - INTERVAL '1' HOUR AND q.p + INTERVAL '1' HOUR;
-- materialized
SELECT a.zid, b.zid FROM zoned a JOIN zoned b ON a.u = b.u AND a.z BETWEEN b.z - INTERVAL '9' SECOND AND b.z - INTERVAL '1' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u AND c.`at` <= s.`at`;
-- materialized
SELECT c.id, s.sid FROM clicks c LEFT JOIN shows s ON c.u = s.u AND c.`at` >= s.`at`;
-- materialized
SELECT c.id FROM clicks c WHERE EXISTS (SELECT 1 FROM shows s WHERE s.u = c.u AND s.`at` BETWEEN c.`at` - INTERVAL '3' SECOND AND c.`at`);
-- materialized
SELECT c.id FROM clicks c WHERE c.u NOT IN (SELECT u FROM shows WHERE u IS NOT NULL);
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u AND CAST(c.`at` AS DATE) = CAST(s.`at` AS DATE);
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` + INTERVAL '2' SECOND AND s.`at` + INTERVAL '1' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c LEFT JOIN shows s ON c.u = s.u AND c.`at` BETWEEN s.`at` + INTERVAL '2' SECOND AND s.`at` + INTERVAL '1' SECOND;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u AND TIMESTAMPDIFF(SECOND, s.`at`, c.`at`) BETWEEN 0 AND 5;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN shows s ON c.u = s.u AND s.`at` + INTERVAL '5' SECOND >= c.`at` AND c.`at` - INTERVAL '0' SECOND >= s.`at`;
-- materialized
SELECT c.id, s.sid FROM clicks c JOIN (SELECT u, sid, `at` FROM shows WHERE m > 2) s ON c.u = s.u AND c.`at` BETWEEN s.`at` AND s.`at` + INTERVAL '1' MINUTE WHERE c.n < 9;
-- materialized
SELECT c.id, w.c FROM clicks c JOIN (SELECT u, window_time AS wt, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE shows, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY u, window_start, window_end, window_time) w ON c.u = w.u AND c.`at` BETWEEN w.wt - INTERVAL '10' SECOND AND w.wt;
-- materialized
SELECT a.window_start, a.u, b.c, a.c FROM (SELECT window_start, window_end, u, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, u) a LEFT JOIN (SELECT window_start, window_end, u, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE shows, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, u) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.u = b.u;
-- materialized
SELECT a.id, b.sid, a.window_end FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) a FULL JOIN TABLE(TUMBLE(TABLE shows, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) b ON a.u = b.u AND a.window_start = b.window_start AND a.window_end = b.window_end;
-- materialized
SELECT a.id FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) a WHERE a.u IN (SELECT u FROM TABLE(TUMBLE(TABLE shows, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) b WHERE a.window_start = b.window_start AND a.window_end = b.window_end);
-- materialized
SELECT a.id FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) a WHERE NOT EXISTS (SELECT * FROM TABLE(TUMBLE(TABLE shows, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) b WHERE a.u = b.u AND a.window_start = b.window_start AND a.window_end = b.window_end);
