-- IN, EXISTS, ANY and ALL, and subqueries that stand for one value, wherever they may stand.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN, `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_items.json', 'format' = 'json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_parts.json', 'format' = 'json');
CREATE TABLE nothing (id INT, k INT, g STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_empty.json', 'format' = 'json');
CREATE TABLE stock (id INT, k INT, g STRING, q INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_stock.json', 'format' = 'debezium-json');
CREATE TABLE names (k INT, n STRING, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_names.json', 'format' = 'debezium-json');

-- materialized
SELECT id FROM items WHERE k IN (1, 2, NULL);
-- materialized
SELECT id FROM items WHERE k NOT IN (1, 2, NULL);
-- materialized
SELECT id FROM items WHERE k NOT IN (1, 3);
-- materialized
SELECT id, k IN (1, 2), k NOT IN (1, NULL), g IN ('a', 'b') FROM items;
-- materialized
SELECT id FROM items WHERE (k, g) IN ((1, 'a'), (2, 'c'));
-- materialized
SELECT id FROM items WHERE (k, g) NOT IN ((1, 'a'), (2, 'c'));
-- materialized
SELECT id FROM items WHERE (k, g) IN (SELECT k, g FROM parts);
-- materialized
SELECT id FROM items WHERE (k, g) NOT IN (SELECT k, g FROM parts);
-- materialized
SELECT id FROM items WHERE (k, g) NOT IN (SELECT k, g FROM parts WHERE k IS NOT NULL AND g IS NOT NULL);
-- materialized
SELECT id FROM items WHERE k IN (SELECT k FROM nothing);
-- materialized
SELECT id FROM items WHERE k NOT IN (SELECT k FROM nothing);
-- materialized
SELECT id FROM items WHERE EXISTS (SELECT * FROM nothing);
-- materialized
SELECT id FROM items WHERE NOT EXISTS (SELECT * FROM nothing);
-- materialized
SELECT id, EXISTS (SELECT * FROM nothing) AS e FROM items;
-- materialized
SELECT id, k IN (SELECT k FROM nothing) AS e, k NOT IN (SELECT k FROM nothing) AS f FROM items;
-- materialized
SELECT id, k IN (SELECT k FROM parts) AS e, k NOT IN (SELECT k FROM parts WHERE k > 1) AS f FROM items;
-- materialized
SELECT id, (SELECT MAX(k) FROM nothing) AS m, (SELECT COUNT(*) FROM nothing) AS c FROM items;
-- materialized
SELECT id, (SELECT COUNT(*) FROM parts p WHERE p.k = i.k) AS c FROM items i;
-- materialized
SELECT id, (SELECT SUM(w) FROM parts p WHERE p.k = i.k AND p.g = i.g) AS c FROM items i;
-- materialized
SELECT id, (SELECT MAX(w) + MIN(w) FROM parts p WHERE p.k = i.k) AS c FROM items i;
-- materialized
SELECT id FROM items i WHERE v < (SELECT MAX(w) FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE v + 1 > (SELECT MIN(w) FROM parts p WHERE p.g = i.g) OR k = 3;
-- materialized
SELECT id FROM items i WHERE 2 <= (SELECT COUNT(*) FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE 0 = (SELECT COUNT(*) FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE v = ANY (SELECT w FROM parts);
-- materialized
SELECT id FROM items i WHERE v = SOME (SELECT w FROM parts WHERE k = 2);
-- materialized
SELECT id FROM items i WHERE v <> ALL (SELECT w FROM parts WHERE w IS NOT NULL);
-- materialized
SELECT id FROM items i WHERE v > ALL (SELECT w FROM parts WHERE w IS NOT NULL);
-- materialized
SELECT id FROM items i WHERE v > ANY (SELECT w FROM parts);
-- materialized
SELECT id FROM items i WHERE v >= ALL (SELECT w FROM parts);
-- materialized
SELECT id FROM items i WHERE v < SOME (SELECT w FROM parts WHERE k = 2);
-- materialized
SELECT id FROM items i WHERE v <= ALL (SELECT w FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE v <> ANY (SELECT w FROM parts WHERE k = 2);
-- materialized
SELECT id FROM items i WHERE v > ANY (SELECT k FROM nothing);
-- materialized
SELECT id FROM items i WHERE v > ALL (SELECT k FROM nothing);
-- materialized
SELECT id, v > ANY (SELECT w FROM parts) AS x FROM items;
-- materialized
SELECT id, v >= ALL (SELECT w FROM parts WHERE w IS NOT NULL) AS x FROM items;
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT 1 FROM parts p WHERE p.k = i.k AND p.w > i.v);
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT 1 FROM parts p WHERE p.w > i.v);
-- materialized
SELECT id FROM items i WHERE NOT EXISTS (SELECT 1 FROM parts p WHERE p.k = i.k AND p.w > i.v AND i.b);
-- materialized
SELECT id FROM items i WHERE NOT EXISTS (SELECT 1 FROM parts p WHERE i.b);
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT p.g, COUNT(*) FROM parts p WHERE p.k = i.k GROUP BY p.g HAVING COUNT(*) > 1);
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT COUNT(*) FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT 1 FROM parts p JOIN names n ON p.k = n.k WHERE p.g = i.g AND n.x > 1);
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT 1 FROM parts p WHERE p.k = i.k AND EXISTS (SELECT 1 FROM names n WHERE n.k = p.k AND n.n <> i.g));
-- materialized
SELECT id FROM items i WHERE EXISTS (SELECT 1 FROM parts p WHERE p.k = i.k AND p.w IN (SELECT v FROM items j WHERE j.g = p.g));
-- materialized
SELECT id FROM items i WHERE k IN (SELECT k FROM parts p WHERE p.w > 10 UNION SELECT k FROM names);
-- materialized
SELECT id FROM items i WHERE k IN (SELECT MAX(k) FROM parts GROUP BY g);
-- materialized
SELECT id FROM items i WHERE k IN (SELECT k FROM parts) AND v NOT IN (SELECT w FROM parts WHERE w IS NOT NULL) AND EXISTS (SELECT 1 FROM names);
-- materialized
SELECT id FROM items i WHERE k IN (SELECT k FROM parts) OR g IN (SELECT g FROM parts WHERE w > 15);
-- materialized
SELECT id FROM items i WHERE NOT (k IN (SELECT k FROM parts) AND v > 10);
-- materialized
SELECT id FROM items i WHERE (k IN (SELECT k FROM parts)) IS NULL;
-- materialized
SELECT id FROM items i WHERE (k IN (SELECT k FROM parts)) IS NOT TRUE;
-- materialized
SELECT id FROM items i WHERE CASE WHEN b THEN k IN (SELECT k FROM parts) ELSE EXISTS (SELECT 1 FROM names) END;
-- materialized
SELECT id, CASE WHEN k IN (SELECT k FROM names) THEN 'known' WHEN EXISTS (SELECT 1 FROM parts p WHERE p.g = i.g) THEN 'part' ELSE 'no' END AS w FROM items i;
-- materialized
SELECT id, COALESCE((SELECT MIN(w) FROM parts p WHERE p.g = i.g), -1) AS m FROM items i;
-- materialized
SELECT g, SUM(v) AS s FROM items GROUP BY g HAVING SUM(v) > (SELECT AVG(w) FROM parts);
-- materialized
SELECT g, SUM(v) AS s FROM items GROUP BY g HAVING g IN (SELECT g FROM parts);
-- materialized
SELECT g, MAX((SELECT MAX(w) FROM parts)) AS m FROM items GROUP BY g;
-- materialized
SELECT SUM(CASE WHEN k IN (SELECT k FROM parts) THEN v ELSE 0 END) AS s FROM items;
-- materialized
SELECT (SELECT MAX(w) FROM parts) AS m, COUNT(*) AS c FROM items GROUP BY (SELECT MAX(w) FROM parts);
-- materialized
SELECT COUNT(*) AS c FROM items GROUP BY k IN (SELECT k FROM parts);
-- materialized
SELECT k IN (SELECT k FROM parts) AS x, COUNT(*) AS c FROM items GROUP BY k IN (SELECT k FROM parts);
-- materialized
SELECT COUNT(*) AS c FROM items GROUP BY EXISTS (SELECT 1 FROM parts WHERE parts.k = items.k);
-- materialized
SELECT i.id, p.pid FROM items i JOIN parts p ON i.k = p.k AND i.v < (SELECT MAX(w) FROM parts);
-- materialized
SELECT i.id, p.pid FROM items i LEFT JOIN parts p ON i.k = p.k AND p.w = (SELECT MAX(w) FROM parts WHERE k = 2);
-- materialized
SELECT id FROM items WHERE v = (SELECT w FROM parts WHERE pid = 5);
SELECT id FROM items WHERE v = (SELECT w FROM parts);
-- materialized
SELECT id, (SELECT w FROM parts WHERE pid > 90) AS w FROM items;
-- materialized
SELECT (SELECT g FROM items WHERE id = 1) || (SELECT name FROM parts WHERE pid = 1) AS x FROM (VALUES (1)) AS t (a);
-- materialized
SELECT (SELECT 5) AS x, (SELECT COUNT(*) FROM nothing) AS y;
-- materialized
SELECT id, (SELECT a FROM (VALUES (7)) AS t (a)) AS x FROM items;
-- materialized
SELECT id FROM items WHERE v > (SELECT 6) + (SELECT 1);
-- materialized
SELECT id FROM items i WHERE k = (SELECT MAX(k) FROM items j WHERE j.g = i.g AND j.id <> i.id);
-- materialized
SELECT id FROM items i WHERE v > (SELECT AVG(v) FROM items j WHERE j.k = i.k) AND k IS NOT NULL;
-- materialized
SELECT id FROM items i WHERE (SELECT COUNT(*) FROM parts p WHERE p.k = i.k) > (SELECT COUNT(*) FROM names n WHERE n.k = i.k);
-- materialized
SELECT id, (SELECT COUNT(*) FROM parts p WHERE p.w > i.v) AS c FROM items i;
-- materialized
SELECT id, (SELECT MAX(p.w + i.v) FROM parts p WHERE p.k = i.k) AS c FROM items i;
SELECT id, (SELECT i.v + MAX(p.w) FROM parts p WHERE p.k = i.k) AS c FROM items i;
-- materialized
SELECT id, (SELECT i.v) AS c FROM items i;
-- materialized
SELECT id FROM items i WHERE i.k IN (SELECT p.k + i.v - i.v FROM parts p);
-- materialized
SELECT id FROM items i WHERE i.v IN (SELECT p.w FROM parts p WHERE p.k = i.k OR p.g = i.g);
-- materialized
SELECT id FROM items i WHERE i.v NOT IN (SELECT p.w FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE 15 IN (SELECT p.w FROM parts p WHERE p.k = i.k);
-- materialized
SELECT id FROM items i WHERE i.k IS NOT NULL AND i.k NOT IN (SELECT k FROM parts p WHERE p.g = i.g AND k IS NOT NULL);
-- materialized
SELECT t.g FROM (SELECT g, COUNT(*) AS c FROM items GROUP BY g) t WHERE t.c IN (SELECT COUNT(*) FROM parts GROUP BY g);
SELECT id FROM items WHERE UNIQUE (SELECT k FROM parts);
-- materialized
SELECT id FROM items i WHERE k IN (SELECT k FROM parts ORDER BY w DESC LIMIT 2);
-- materialized
SELECT id FROM items i WHERE (SELECT name FROM parts p WHERE p.pid = i.id AND p.pid <> 2) = 'bolt';
-- materialized
SELECT id FROM items i WHERE id IN (SELECT pid FROM parts);
-- materialized
SELECT id FROM items i WHERE d IN (SELECT w / 10 FROM parts);
SELECT id FROM items i WHERE g IN (SELECT k FROM parts);
SELECT id FROM items i WHERE k IN (SELECT k, g FROM parts);
SELECT id, ARRAY(SELECT w FROM parts) FROM items;
SELECT g, ROW_NUMBER() OVER (PARTITION BY k IN (SELECT k FROM parts) ORDER BY PROCTIME()) AS r FROM items;
-- materialized
SELECT id FROM items WHERE k IN (SELECT k FROM nothing) OR id < 3;
-- materialized
SELECT id FROM items WHERE k NOT IN (SELECT k FROM nothing) OR id < 3;
-- materialized
SELECT id FROM items WHERE (k IN (SELECT k FROM nothing) AND v > 2) OR id < 3;
-- materialized
SELECT id FROM items WHERE EXISTS (SELECT k FROM nothing) OR id < 3;
-- materialized
SELECT id FROM items WHERE k = ANY (SELECT k FROM nothing) OR id < 3;
-- materialized
SELECT id FROM items WHERE id < 3 OR k IN (SELECT pid FROM parts);
-- materialized
SELECT g, COUNT(*) AS c FROM items GROUP BY g HAVING g IN (SELECT g FROM nothing) OR COUNT(*) > 1;
-- materialized
SELECT id FROM items WHERE (k IN (SELECT k FROM nothing)) IS NOT TRUE;
-- materialized
SELECT id FROM items WHERE NOT (k IN (SELECT k FROM nothing) OR id < 3);
-- materialized
SELECT id FROM items i WHERE k IN (SELECT k FROM nothing n WHERE n.g = i.g) OR id < 3;
-- materialized
SELECT id FROM items i WHERE v > ANY (SELECT k FROM nothing n WHERE n.g = i.g) OR id < 3;
-- materialized
SELECT id FROM items i WHERE v > ALL (SELECT k FROM nothing n WHERE n.g = i.g) OR id < 3;
-- materialized
SELECT id FROM items WHERE v > (SELECT MAX(k) FROM nothing) OR id < 3;
