-- Subqueries over what is there as a whole, some of it nothing.
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN, `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_items.json', 'format' = 'json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_parts.json', 'format' = 'json');
CREATE TABLE nothing (id INT, k INT, g STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_empty.json', 'format' = 'json');

-- rowsort
SELECT id, k IN (SELECT k FROM nothing) AS e, k NOT IN (SELECT k FROM nothing) AS f FROM items;
-- rowsort
SELECT id FROM items WHERE EXISTS (SELECT * FROM nothing);
-- rowsort
SELECT id FROM items WHERE NOT EXISTS (SELECT * FROM nothing);
-- rowsort
SELECT id FROM items i WHERE v < SOME (SELECT w FROM parts WHERE k = 2);
-- rowsort
SELECT id FROM items i WHERE v > ANY (SELECT k FROM nothing);
-- rowsort
SELECT id FROM items i WHERE v > ALL (SELECT k FROM nothing);
-- rowsort
SELECT id, v > ANY (SELECT w FROM parts) AS x FROM items;
-- rowsort
SELECT id, v >= ALL (SELECT w FROM parts WHERE w IS NOT NULL) AS x FROM items;
-- rowsort
SELECT id FROM items i WHERE k IN (SELECT MAX(k) FROM parts GROUP BY g);
-- rowsort
SELECT SUM(CASE WHEN k IN (SELECT k FROM parts) THEN v ELSE 0 END) AS s FROM items;
-- rowsort
SELECT COUNT(*) AS c FROM items GROUP BY EXISTS (SELECT 1 FROM parts WHERE parts.k = items.k);
