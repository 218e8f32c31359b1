CREATE TABLE w (id INT, g STRING, i INT, n INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/rank_ends.json', 'format' = 'json');
CREATE TABLE wl (id INT, g STRING, i INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/rank_ends.json', 'format' = 'json');
CREATE TABLE st (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn <= n;
SELECT id, g, i, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn <= n;
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g, n ORDER BY i) AS rn FROM w) WHERE n >= rn;
SELECT id, g, i, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g, n ORDER BY i DESC) AS rn FROM w) WHERE rn <= n AND i > 1;
-- differs: Flink takes rn < n for rn <= n
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn < n;
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn <= n + 1;
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn BETWEEN 2 AND n;
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn = n;
-- materialized
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM w) WHERE rn <= n AND rn <= 2;
SELECT id, g, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM wl) WHERE rn <= n;
SELECT id, g, i FROM (SELECT id, g, i, m, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i) AS rn FROM (SELECT *, n + 1 AS m FROM w)) WHERE rn <= m;
SELECT sku, qty FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price) AS rn FROM st) WHERE rn <= sku;
SELECT sku, qty, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price) AS rn FROM st) WHERE rn <= sku;
SELECT g, s, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY s DESC) AS rn FROM (SELECT g, SUM(i) AS s, MAX(COALESCE(n * 0, 0) + 2) AS c FROM w GROUP BY g)) WHERE rn <= c;
