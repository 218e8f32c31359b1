-- SINGLE_VALUE, and keys of JSON_OBJECTAGG: several rows, and equal keys, are errors unless they are taken back.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, l BIGINT, dc DECIMAL(10, 2), s STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE st (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
SELECT SINGLE_VALUE(g) AS g, SINGLE_VALUE(dc) AS dc FROM r WHERE id = 3;
SELECT SINGLE_VALUE(g) AS g FROM r WHERE id = 300;
SELECT id, SINGLE_VALUE(i) AS i, COUNT(*) AS n FROM r GROUP BY id;
SELECT SINGLE_VALUE(n) AS n FROM (SELECT COUNT(*) AS n FROM r);
SELECT sku, SINGLE_VALUE(qty) AS q, SINGLE_VALUE(shop) AS s FROM st GROUP BY sku;
SELECT SINGLE_VALUE(g) AS g FROM r;
SELECT JSON_OBJECTAGG(KEY CAST(sku AS STRING) VALUE qty) AS j FROM st WHERE shop = 'n';
SELECT JSON_OBJECTAGG(KEY g VALUE id) AS j FROM r;
SELECT JSON_OBJECTAGG(KEY shop VALUE n) AS j FROM (SELECT shop, COUNT(*) AS n FROM st WHERE shop IS NOT NULL GROUP BY shop);
SELECT APPROX_COUNT_DISTINCT(g) FROM r;
