CREATE TABLE st (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, s STRING, d DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
SELECT sku, SUM(qty * 0) OVER (PARTITION BY shop ORDER BY price) AS s FROM st;
SELECT sku, qty, MIN(sku) OVER (ORDER BY qty) AS s FROM st;
SELECT sku, qty, COUNT(price) OVER (ORDER BY qty ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM st;
-- differs: Flink gives rows that are equal in the order the number of the last of them as their rank
SELECT id, RANK() OVER (PARTITION BY g ORDER BY i) AS r1 FROM r;
SELECT id, MAX(d) OVER (PARTITION BY g ORDER BY i) AS m, FIRST_VALUE(id) OVER (PARTITION BY g ORDER BY i) AS f, LAST_VALUE(id) OVER (PARTITION BY g ORDER BY i) AS la FROM r;
SELECT id, LAG(i) OVER (PARTITION BY g ORDER BY id) AS a, LAG(s, 2) OVER (PARTITION BY g ORDER BY id) AS b, LAG(d, 0) OVER (PARTITION BY g ORDER BY id) AS c FROM r;
SELECT id, i - LAG(i) OVER (ORDER BY id) AS diff, SUM(i) OVER (ORDER BY id) AS s FROM r;
SELECT diff, COUNT(*) AS n FROM (SELECT i - LAG(i) OVER (ORDER BY id) AS diff FROM r) GROUP BY diff;
SELECT id, LAG(i, 1, -1) OVER (PARTITION BY g ORDER BY id) AS a, LAG(s, 2, g) OVER (PARTITION BY g ORDER BY id) AS b FROM r;
SELECT id, LAG(i, 1, id) OVER (ORDER BY id) AS a, SUM(i) OVER (ORDER BY id) AS s FROM r;
-- differs: in Flink a row may not come behind another in the order
SELECT id, LAG(id, 1, 0) OVER (PARTITION BY g ORDER BY d) AS a FROM r;
