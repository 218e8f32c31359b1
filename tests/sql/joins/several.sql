-- Joins of several tables, what filters them, and hints.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN, `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_items.json', 'format' = 'json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_parts.json', 'format' = 'json');
CREATE TABLE nothing (id INT, k INT, g STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_empty.json', 'format' = 'json');
CREATE TABLE stock (id INT, k INT, g STRING, q INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_stock.json', 'format' = 'debezium-json');
CREATE TABLE names (k INT, n STRING, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_names.json', 'format' = 'debezium-json');

SELECT /*+ BROADCAST(zz) */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ BROADCAST(stock) */ s.id FROM stock s JOIN names n ON s.k = n.k;
-- materialized
SELECT /*+ BROADCAST(stock) */ stock.id FROM stock JOIN names n ON stock.k = n.k;
SELECT /*+ SHUFFLE_HASH(s, zz) */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ STATE_TTL('zz' = '1 h') */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ STATE_TTL('s' = '1 h', 'zz' = '1 h') */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ STATE_TTL('s' = 'x') */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ NOSUCH(s) */ s.id FROM stock s JOIN names n ON s.k = n.k;
-- materialized
SELECT /*+ BROADCAST(s) */ s.id FROM stock s;
-- materialized
SELECT /*+ BROADCAST(zz) */ s.id FROM stock s;
SELECT /*+ BROADCAST() */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ MULTI_JOIN(s, zz) */ s.id FROM stock s JOIN names n ON s.k = n.k;
-- materialized
SELECT /*+ NEST_LOOP(n) */ s.id FROM stock s JOIN (SELECT k FROM names) n ON s.k = n.k;
-- materialized
SELECT /*+ LOOKUP('table'='n') */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ LOOKUP('table'='zz') */ s.id FROM stock s JOIN names n ON s.k = n.k;
SELECT /*+ EARLY_FIRE('time_mode'='rowtime','delay'='10s') */ s.id FROM stock s JOIN names n ON s.k = n.k;
-- materialized
SELECT i.id, p.pid FROM items i, parts p LEFT JOIN names n ON p.k = n.k WHERE i.k = p.k;
-- materialized
SELECT i.id, p.pid, n.n FROM items i LEFT JOIN parts p USING (k) LEFT JOIN names n USING (k);
-- materialized
SELECT k, i.id, p.pid, n.n FROM items i FULL JOIN parts p USING (k) FULL JOIN names n USING (k);
-- materialized
SELECT * FROM items i JOIN parts p USING (k) JOIN names n USING (k);
-- materialized
SELECT * FROM (SELECT id, k FROM items) NATURAL JOIN (SELECT pid, k FROM parts) NATURAL JOIN (SELECT k, n FROM names);
-- materialized
SELECT a.id, b.id, c.id FROM items a JOIN items b ON a.k = b.k AND a.id < b.id LEFT JOIN items c ON c.g = b.g AND c.id > b.id;
-- materialized
SELECT COUNT(*) FROM items a, items b, items c WHERE a.k = b.k AND b.v = c.v;
-- materialized
SELECT a.g, COUNT(DISTINCT b.name) AS c FROM items a LEFT JOIN parts b ON a.k = b.k AND b.w > 10 GROUP BY a.g HAVING COUNT(*) > 1;
-- materialized
SELECT i.id FROM items i LEFT JOIN parts p ON i.k = p.k WHERE p.pid IS NULL;
-- materialized
SELECT i.id FROM items i LEFT JOIN parts p ON i.k = p.k WHERE COALESCE(p.w, 0) < 10;
-- materialized
SELECT i.id, p.pid FROM items i FULL JOIN parts p ON i.k = p.k WHERE i.id IS NULL OR p.pid IS NULL;
-- materialized
SELECT i.id, p.pid FROM items i FULL JOIN parts p ON i.k = p.k WHERE i.v > 5;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND i.v > 5 AND i.v > 5 AND 1 = 1;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND NULL = 1;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON CAST(NULL AS BOOLEAN);
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON p.pid = 2;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.id = 2;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND p.name = 'nut' LEFT JOIN names n ON n.k = p.k WHERE n.x > 1 OR n.x IS NULL;
-- materialized
SELECT i.id, s.q FROM items i LEFT JOIN (SELECT k, SUM(q) AS q FROM stock GROUP BY k HAVING SUM(q) > 5) s ON i.k = s.k;
-- materialized
SELECT i.id, s.c FROM items i LEFT JOIN (SELECT COUNT(*) AS c FROM stock) s ON TRUE;
-- materialized
SELECT i.id, s.c FROM items i CROSS JOIN (SELECT COUNT(*) AS c FROM nothing) s;
-- materialized
SELECT i.id, s.c FROM items i LEFT JOIN (SELECT MAX(k) AS c FROM nothing) s ON TRUE;
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON i.k = p.k ORDER BY i.id, p.pid LIMIT 4;
-- materialized
SELECT DISTINCT i.g, p.g FROM items i FULL JOIN parts p ON i.g = p.g;
-- materialized
SELECT i.g, SUM(p.w) FILTER (WHERE p.w > 10) AS f FROM items i JOIN parts p ON i.g = p.g GROUP BY ROLLUP (i.g);
-- materialized
SELECT t.id, n.n FROM (SELECT id, k FROM stock UNION ALL SELECT id, k FROM items) t JOIN names n ON t.k = n.k;
-- materialized
SELECT t.k, n.n FROM (SELECT k FROM stock INTERSECT SELECT k FROM items) t LEFT JOIN names n ON t.k = n.k;
