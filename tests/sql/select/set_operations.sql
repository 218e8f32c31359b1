-- Set operations, VALUES and common tables.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN, `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_items.json', 'format' = 'json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_parts.json', 'format' = 'json');
CREATE TABLE nothing (id INT, k INT, g STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_empty.json', 'format' = 'json');
CREATE TABLE stock (id INT, k INT, g STRING, q INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_stock.json', 'format' = 'debezium-json');
CREATE TABLE names (k INT, n STRING, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_names.json', 'format' = 'debezium-json');

-- materialized
SELECT k, g FROM items UNION ALL SELECT k, g FROM parts UNION SELECT k, g FROM nothing;
-- materialized
SELECT k, g FROM items UNION SELECT k, g FROM parts UNION ALL SELECT 1, 'a';
-- materialized
SELECT k FROM items UNION ALL SELECT k FROM parts INTERSECT SELECT k FROM names;
-- materialized
SELECT k FROM items EXCEPT SELECT k FROM parts EXCEPT SELECT 3;
-- materialized
SELECT g FROM items INTERSECT SELECT g FROM parts;
-- materialized
SELECT k, g FROM items EXCEPT ALL SELECT k, g FROM parts;
-- materialized
SELECT k FROM nothing UNION SELECT k FROM nothing;
-- materialized
SELECT k FROM items INTERSECT SELECT pid FROM parts;
-- materialized
SELECT id, d FROM items UNION SELECT pid, w FROM parts;
-- materialized
SELECT g FROM items UNION SELECT 'abc';
-- materialized
SELECT 1 AS x UNION SELECT 1 UNION SELECT 2;
-- materialized
SELECT 1 AS x UNION ALL SELECT 2.5;
SELECT k FROM items UNION SELECT g FROM parts;
SELECT k, g FROM items UNION SELECT k FROM parts;
-- materialized
SELECT `at` FROM items UNION SELECT TIMESTAMP '2024-05-01 10:00:02';
-- materialized
SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (1, 'a')) AS t (x, y);
-- materialized
SELECT x, COUNT(*) AS c FROM (VALUES (1), (2), (1)) AS t (x) GROUP BY x;
-- materialized
SELECT * FROM (VALUES (1, 2.5), (2, 3)) AS t;
-- materialized
VALUES 1, 2, 3;
-- materialized
SELECT * FROM (VALUES 1, 2, 3) AS t (x) WHERE x <> 2;
-- materialized
SELECT EXPR$0 + 1 AS x, EXPR$1 FROM (VALUES (1, 'a'));
-- materialized
SELECT * FROM (VALUES (ARRAY[1, 2], MAP['a', 1], ROW(1, 'x'))) AS t (a, m, r);
SELECT t.r.EXPR$1 FROM (VALUES (ROW(1, 'x'))) AS t (r);
-- materialized
SELECT * FROM (VALUES (DATE '2024-01-01', TIME '10:00:00', TIMESTAMP '2024-01-01 00:00:00.123')) AS t (a, b, c);
-- materialized
WITH t AS (SELECT k, COUNT(*) AS c FROM items GROUP BY k) SELECT a.k, a.c, b.c FROM t a JOIN t b ON a.k = b.c;
-- materialized
WITH t (a, b) AS (SELECT k, g FROM items) SELECT a FROM t WHERE b IN (SELECT b FROM t WHERE a > 1);
-- materialized
WITH t AS (SELECT * FROM items WHERE v > 5) SELECT (SELECT COUNT(*) FROM t) AS c, (SELECT MAX(v) FROM t) AS m, id FROM t;
-- materialized
WITH t AS (VALUES (1, 'a'), (2, 'b')) SELECT * FROM t;
-- materialized
WITH t AS (SELECT 1 AS x) SELECT * FROM (WITH u AS (SELECT x + 1 AS y FROM t) SELECT * FROM u, t);
-- materialized
WITH t AS (SELECT g, v FROM items UNION ALL SELECT g, w FROM parts) SELECT g, SUM(v) AS s FROM t GROUP BY g HAVING COUNT(*) > 1;
-- materialized
SELECT k, COUNT(*) AS c FROM (SELECT k FROM items UNION ALL SELECT k FROM parts) GROUP BY k;
-- materialized
SELECT k, MAX(g) AS m FROM (SELECT k, g FROM items EXCEPT SELECT k, g FROM parts) GROUP BY k;
-- materialized
SELECT a.k FROM (SELECT k FROM items INTERSECT SELECT k FROM parts) a JOIN names n ON a.k = n.k;
-- materialized
(SELECT id FROM items WHERE id < 3) UNION ALL (SELECT id FROM items WHERE id > 7 ORDER BY v LIMIT 1);
-- materialized
SELECT id FROM items UNION ALL SELECT pid FROM parts ORDER BY 1 LIMIT 3;
SELECT k FROM items MINUS SELECT k FROM parts;
-- materialized
SELECT d FROM items INTERSECT SELECT CAST(d AS DECIMAL(5, 1)) FROM items;
-- materialized
SELECT b, g FROM items INTERSECT ALL SELECT b, g FROM items;
-- materialized
SELECT ROW(k, g) AS a FROM items INTERSECT SELECT ROW(k, g) FROM parts;
-- materialized
TABLE parts;
