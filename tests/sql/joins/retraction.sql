-- Joins and set operations over rows that are updated and taken back.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN, `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_items.json', 'format' = 'json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_parts.json', 'format' = 'json');
CREATE TABLE nothing (id INT, k INT, g STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_empty.json', 'format' = 'json');
CREATE TABLE stock (id INT, k INT, g STRING, q INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_stock.json', 'format' = 'debezium-json');
CREATE TABLE names (k INT, n STRING, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_names.json', 'format' = 'debezium-json');

-- materialized
SELECT * FROM names;
-- materialized
SELECT s.id, s.k, n.n, n.x FROM stock s JOIN names n ON s.k = n.k;
-- materialized
SELECT s.id, s.k, n.k, n.n FROM stock s RIGHT JOIN names n ON s.k = n.k AND s.q > 5;
-- materialized
SELECT s.id, s.k, n.k, n.n FROM stock s FULL JOIN names n ON s.k = n.k;
-- materialized
SELECT s.id, n.n FROM stock s LEFT JOIN names n ON s.q > n.x * 5;
-- materialized
SELECT * FROM stock s WHERE k IN (SELECT k FROM names);
-- materialized
SELECT * FROM stock s WHERE NOT EXISTS (SELECT 1 FROM names n WHERE n.k = s.k AND n.x IS NOT NULL);
-- materialized
SELECT g, COUNT(*) AS c, SUM(q) AS s, MAX(n.n) AS m FROM stock JOIN names n USING (k) GROUP BY g;
-- materialized
SELECT a.g, a.c, b.m FROM (SELECT g, COUNT(*) AS c FROM stock GROUP BY g) a LEFT JOIN (SELECT g, MIN(v) AS m FROM items GROUP BY g) b ON a.g = b.g;
-- materialized
SELECT a.g, a.c, b.g, b.c FROM (SELECT g, COUNT(*) AS c FROM stock GROUP BY g) a FULL JOIN (SELECT g, COUNT(*) AS c FROM parts GROUP BY g) b ON a.g = b.g;
-- materialized
SELECT t.k, t.v, p.name FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM items) WHERE r <= 1) t LEFT JOIN parts p ON t.k = p.k;
-- materialized
SELECT t.k, t.r, t.v, p.name FROM (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM items) WHERE r <= 2) t FULL JOIN parts p ON t.k = p.k AND t.r = 1;
-- materialized
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY q DESC, id) AS r FROM (SELECT s.id, s.q, n.n FROM stock s LEFT JOIN names n ON s.k = n.k)) WHERE r <= 3;
-- materialized
SELECT s.id, i.id, n.n FROM stock s JOIN items i ON s.id = i.id LEFT JOIN names n ON i.k = n.k;
-- materialized
SELECT a.id, b.id FROM stock a JOIN stock b ON a.g = b.g AND a.q < b.q;
-- materialized
SELECT a.id, b.id FROM stock a LEFT JOIN stock b ON a.k = b.k AND a.id <> b.id;
-- materialized
SELECT k, g FROM stock UNION ALL SELECT k, n FROM names;
-- materialized
SELECT k FROM stock INTERSECT SELECT k FROM names;
-- materialized
SELECT k FROM names EXCEPT SELECT k FROM stock;
-- materialized
SELECT k, g FROM stock INTERSECT ALL SELECT k, g FROM parts;
-- materialized
SELECT g, (SELECT MAX(x) FROM names n WHERE n.k = s.k) AS m FROM stock s;
-- materialized
SELECT id, (SELECT n FROM names n WHERE n.k = s.k) AS m FROM stock s;
-- materialized
SELECT id FROM stock s WHERE q >= (SELECT MAX(q) FROM stock);
-- materialized
SELECT id, q - (SELECT SUM(q) FROM stock) AS d FROM stock;
-- materialized
SELECT COUNT(DISTINCT s.g) AS c, MIN(n.x) AS m FROM stock s JOIN names n ON s.k < n.k;
-- materialized
SELECT s.k, LISTAGG(n.n) AS l FROM stock s JOIN names n ON s.k = n.k GROUP BY s.k;
-- materialized
SELECT x.g, y.n FROM (SELECT g, MAX(k) AS k FROM stock GROUP BY g) x LEFT JOIN (SELECT k, MAX(n) AS n FROM names GROUP BY k) y ON x.k = y.k WHERE y.n <> 'TWO';
-- materialized
SELECT DISTINCT s.g, n.x FROM stock s LEFT JOIN names n ON s.k = n.k;
-- materialized
SELECT /*+ STATE_TTL('s' = '1 h', 'n' = '2 d') */ s.id, n.n FROM stock s LEFT JOIN names n ON s.k = n.k;
-- materialized
SELECT /*+ STATE_TTL('s' = '1 h') */ s.g, COUNT(*) AS c FROM stock s GROUP BY s.g;
-- materialized
SELECT /*+ SHUFFLE_HASH(s, n) */ s.id, n.n FROM stock s JOIN names n ON s.k = n.k;
-- materialized
SELECT /*+ SHUFFLE_MERGE(s), NEST_LOOP(n) */ s.id, n.n FROM stock s JOIN names n ON s.k = n.k;
