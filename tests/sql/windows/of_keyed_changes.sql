SET 'pipeline.auto-watermark-interval' = '0';
SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE sk (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3), PRIMARY KEY (sku) NOT ENFORCED, WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
-- A window that is over keeps a row that is replaced later, also where changes are folded.
SELECT window_start, COUNT(*) AS n, SUM(qty) AS q FROM TABLE(TUMBLE(TABLE sk, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT shop, window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE sk, DESCRIPTOR(`at`), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY shop, window_start, window_end;
SELECT TUMBLE_START(`at`, INTERVAL '1' MINUTE) AS s, COUNT(*) AS n, MAX(price) AS p FROM sk GROUP BY TUMBLE(`at`, INTERVAL '1' MINUTE);
