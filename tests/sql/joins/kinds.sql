-- Kinds of joins and of conditions over rows with NULLs and rows that are equal.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN, `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_items.json', 'format' = 'json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_parts.json', 'format' = 'json');
CREATE TABLE nothing (id INT, k INT, g STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_empty.json', 'format' = 'json');
CREATE TABLE stock (id INT, k INT, g STRING, q INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_stock.json', 'format' = 'debezium-json');
CREATE TABLE names (k INT, n STRING, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_names.json', 'format' = 'debezium-json');

-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND i.v > p.w;
-- materialized
SELECT i.id, p.pid FROM items i RIGHT JOIN parts p ON i.k = p.k AND i.v > 10;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.v > 10;
-- materialized
SELECT i.id, p.pid FROM items i FULL JOIN parts p ON p.w = 15 AND i.id = 1;
-- materialized
SELECT i.id, p.pid FROM items i FULL JOIN parts p ON i.g IS NOT DISTINCT FROM p.g AND i.k IS NOT DISTINCT FROM p.k;
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON i.g IS DISTINCT FROM p.g AND i.k = p.k;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON 1 = 2;
-- materialized
SELECT i.id, p.pid FROM items i FULL JOIN parts p ON FALSE;
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON FALSE;
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON i.k = 2 AND p.k = 2;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND i.k = 2;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND p.k = 2;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k + 1;
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON i.k + p.k = 4;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON COALESCE(i.g, '?') = COALESCE(p.g, '?');
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON CASE WHEN i.b THEN i.k ELSE i.v END = p.k;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k OR i.g = p.g;
-- materialized
SELECT i.id, p.pid FROM items i FULL JOIN parts p ON i.k = p.k OR i.g = p.g;
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k BETWEEN p.k AND p.w;
-- materialized
SELECT i.id, p.name FROM items i JOIN parts p ON p.name LIKE CONCAT('%', LOWER(i.g), '%');
-- materialized
SELECT * FROM items NATURAL LEFT JOIN parts;
-- materialized
SELECT * FROM items NATURAL FULL JOIN parts;
-- materialized
SELECT * FROM items LEFT JOIN parts USING (k, g);
-- materialized
SELECT * FROM items RIGHT JOIN parts USING (k);
-- materialized
SELECT k, g, id, pid FROM items FULL JOIN parts USING (k, g);
-- materialized
SELECT k, COUNT(*) AS n, SUM(w) AS s FROM items LEFT JOIN parts USING (k) GROUP BY k;
-- materialized
SELECT k, i.k, p.k FROM items i RIGHT JOIN parts p USING (k);
-- materialized
SELECT * FROM items CROSS JOIN nothing;
-- materialized
SELECT * FROM nothing FULL JOIN parts USING (k);
-- materialized
SELECT n.id, p.pid FROM nothing n RIGHT JOIN parts p ON n.k > p.k;
-- materialized
SELECT COUNT(*), COUNT(n.id), SUM(p.w) FROM parts p LEFT JOIN nothing n ON n.k = p.k;
-- materialized
SELECT a.id, b.id FROM items a JOIN items b ON a.g = b.g AND a.id < b.id;
-- materialized
SELECT a.id, COUNT(b.id) AS bigger FROM items a LEFT JOIN items b ON b.v > a.v GROUP BY a.id;
-- materialized
SELECT DISTINCT a.g, b.name FROM items a, parts b WHERE a.k = b.k;
-- materialized
SELECT i.id, p.pid, n.n FROM items i LEFT JOIN parts p ON i.k = p.k LEFT JOIN names n ON n.k = p.k AND n.x > 1;
-- materialized
SELECT i.id, p.pid, n.n FROM items i LEFT JOIN parts p ON i.k = p.k INNER JOIN names n ON n.k = i.k;
-- materialized
SELECT i.id, p.pid, n.n, s.q FROM items i FULL JOIN parts p ON i.k = p.k LEFT JOIN names n ON n.k = COALESCE(i.k, p.k) JOIN stock s ON s.k = n.k;
-- materialized
SELECT i.id, p.pid, n.n, s.q, j.id FROM items i JOIN parts p ON i.g = p.g LEFT JOIN names n ON n.k = i.k RIGHT JOIN stock s ON s.k = p.k LEFT JOIN items j ON j.id = s.id;
SELECT i.id, p.pid, n.n FROM items i LEFT JOIN parts p JOIN names n ON p.k = n.k ON i.k = p.k;
-- materialized
SELECT * FROM (SELECT id AS a FROM items WHERE id < 3) CROSS JOIN (SELECT pid AS b FROM parts WHERE pid > 5) CROSS JOIN (VALUES ('x'), ('y')) AS t (c);
-- materialized
SELECT i.id, t.w FROM items i JOIN (VALUES (1, 'one'), (2, 'two'), (CAST(NULL AS INT), 'none')) AS t (k, w) ON i.k = t.k;
SELECT i.k + p.k AS x, i.k FROM items i JOIN parts p ON i.k = p.k HAVING i.k > 1;
SELECT items.k FROM items JOIN parts ON k = k;
SELECT id FROM items JOIN parts ON items.k = parts.k AND pid;
SELECT * FROM items JOIN parts ON i.k = p.k;
SELECT * FROM items JOIN items ON TRUE;
SELECT i.id FROM items i JOIN parts p;
SELECT i.id FROM items i LEFT JOIN parts p;
SELECT i.id FROM items i CROSS JOIN parts p ON i.k = p.k;
SELECT i.id FROM items i NATURAL JOIN parts p ON i.k = p.k;
SELECT i.id FROM items i LEFT SEMI JOIN parts p ON i.k = p.k;
-- materialized
SELECT a.k, b.k FROM (SELECT k FROM items) a JOIN (SELECT k FROM parts) b ON (a.k, a.k) = (b.k, b.k);
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON ROW(i.k, i.g) = ROW(p.k, p.g);
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND p.name IS NOT NULL AND (i.b OR p.w > 10);
