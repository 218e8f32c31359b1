SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE st (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
CREATE TABLE sk (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3), PRIMARY KEY (sku) NOT ENFORCED, WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, l BIGINT, dc DECIMAL(10, 2), s STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
-- Aggregates over changes.
SELECT * FROM st;
SELECT sku, qty * price AS worth FROM sk WHERE qty > 3;
SELECT shop, COUNT(*) AS c, COUNT(qty) AS cq, SUM(qty) AS s, AVG(price) AS a FROM st GROUP BY shop;
SELECT shop, MIN(qty) AS lo, MAX(qty) AS hi, MAX(price) AS p FROM st GROUP BY shop;
SELECT COUNT(*) AS c, SUM(price) AS s, MIN(`at`) AS m FROM sk;
SELECT shop, COUNT(DISTINCT price) AS d, SUM(DISTINCT qty) AS s FROM st GROUP BY shop;
SELECT shop, COUNT(*) FILTER (WHERE qty > 5) AS c, SUM(qty) FILTER (WHERE price < 5) AS s FROM sk GROUP BY shop;
SELECT shop, COUNT(*) AS c FROM st GROUP BY shop HAVING COUNT(*) > 1;
SELECT shop, LAST_VALUE(qty) AS l, FIRST_VALUE(sku) AS f FROM st GROUP BY shop;
SELECT shop, LISTAGG(CAST(sku AS STRING)) AS l FROM st GROUP BY shop;
SELECT shop, COLLECT(qty) AS l FROM st GROUP BY shop;
SELECT shop, ARRAY_AGG(sku) AS l FROM st GROUP BY shop;
SELECT DISTINCT shop FROM st;
SELECT DISTINCT qty, shop FROM sk;
SELECT c, COUNT(*) AS n FROM (SELECT shop, COUNT(*) AS c FROM st GROUP BY shop) GROUP BY c;
SELECT MAX(c) AS m, SUM(c) AS s FROM (SELECT shop, COUNT(*) AS c FROM sk GROUP BY shop);
-- rowsort
SELECT shop, price, SUM(qty) AS q FROM st GROUP BY GROUPING SETS ((shop), (price), ());
-- materialized
SELECT sku FROM st UNION SELECT id FROM r WHERE id < 4;
-- materialized
SELECT sku FROM st EXCEPT SELECT id FROM r WHERE id < 4;
-- materialized
SELECT qty FROM st INTERSECT ALL SELECT i FROM r;
-- rowsort
SELECT sku, 'st' AS k FROM st UNION ALL SELECT id, g FROM r WHERE id > 14;
-- materialized
SELECT r.id, st.qty FROM r JOIN st ON r.i = st.qty;
-- materialized
SELECT r.id, st.shop FROM r LEFT JOIN sk AS st ON r.id = st.sku AND st.qty > 2;
-- materialized
SELECT st.sku, r.g FROM st LEFT JOIN r ON r.id = st.sku;
-- materialized
SELECT a.sku, b.sku FROM st AS a FULL JOIN st AS b ON a.qty = b.sku;
-- materialized
SELECT sku FROM st WHERE EXISTS (SELECT 1 FROM r WHERE r.id = st.sku AND r.b);
-- materialized
SELECT id FROM r WHERE id NOT IN (SELECT sku FROM sk WHERE qty > 10);
-- materialized
SELECT r.g, SUM(st.qty) AS s FROM r JOIN st ON r.id = st.sku GROUP BY r.g;
-- materialized
SELECT sku, qty FROM st WHERE qty > (SELECT AVG(qty) FROM st);
SELECT sku, u FROM st CROSS JOIN UNNEST(ARRAY[shop, CAST(qty AS STRING)]) AS x (u) WHERE sku < 3;
SELECT TUMBLE_START(`at`, INTERVAL '5' SECOND) AS w, COUNT(*) AS c FROM sk GROUP BY TUMBLE(`at`, INTERVAL '5' SECOND);
SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE sk, DESCRIPTOR(`at`), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT sku, SUM(qty) OVER (PARTITION BY shop ORDER BY `at`) AS s FROM sk;
SELECT sku, SUM(qty) OVER (PARTITION BY shop ORDER BY sku) AS s FROM st;
SELECT sku, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty) AS n FROM st;
SELECT sku FROM st ORDER BY `at`;
SELECT sku FROM sk ORDER BY `at`;
SELECT * FROM sk MATCH_RECOGNIZE (ORDER BY `at` MEASURES A.sku AS a PATTERN (A B) DEFINE B AS B.qty > A.qty);
-- Functions of changes: what has come and gone in between counts.
SET 'table.exec.mini-batch.enabled' = 'false';
SELECT * FROM TO_CHANGELOG(input => TABLE st);
SELECT op, COUNT(*) AS c FROM TO_CHANGELOG(input => TABLE sk) GROUP BY op;
SELECT op, sku FROM TO_CHANGELOG(input => TABLE st) WHERE op IN ('DELETE', 'INSERT');
CREATE VIEW ranks AS SELECT shop, sku, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, sku) AS n FROM st) WHERE n <= 1;
SELECT * FROM TO_CHANGELOG(input => TABLE ranks, op => DESCRIPTOR(what));
CREATE VIEW said AS SELECT * FROM TO_CHANGELOG(input => TABLE sk);
SELECT shop, SUM(qty) AS q FROM FROM_CHANGELOG(input => TABLE said) GROUP BY shop;
SELECT * FROM FROM_CHANGELOG(input => TABLE said) WHERE qty > 5;
