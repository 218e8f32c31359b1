-- Filters of rows that are told once for each key: one that no longer passes goes as -D, whatever the filter asks.
SET 'pipeline.auto-watermark-interval' = '0';
SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE sk (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3), PRIMARY KEY (sku) NOT ENFORCED, WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
SELECT sku, qty FROM sk WHERE qty * price > 10;
SELECT sku, qty FROM sk WHERE CAST(price AS INT) < 5 OR `at` > TIMESTAMP '2024-05-01 10:00:05';
SELECT sku, qty FROM sk WHERE CHAR_LENGTH(SUBSTRING(shop, 2)) > 3 OR MOD(qty, 2) = 0;
SELECT sku, qty FROM sk WHERE CURRENT_WATERMARK(`at`) IS NULL OR `at` > CURRENT_WATERMARK(`at`);
SELECT sku, qty FROM sk WHERE qty > 3 AND CURRENT_WATERMARK(`at`) < TIMESTAMP '2024-05-01 10:00:04';
SELECT shop, COUNT(*) AS n, SUM(qty) AS s FROM sk WHERE CURRENT_WATERMARK(`at`) IS NULL OR qty > 3 GROUP BY shop;
SELECT sku, qty FROM sk WHERE `at` < CURRENT_TIMESTAMP AND qty > 3;
SELECT sku FROM sk WHERE 10 / (qty - 5) > 1;
