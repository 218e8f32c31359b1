SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE sales (id INT, cur STRING, amount INT, `at` TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'path' = '${DATA}/sales.json', 'format' = 'json');
CREATE TABLE rates (cur STRING, rate INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${DATA}/rates.json', 'format' = 'json');
CREATE TABLE keyless (cur STRING, rate INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'path' = '${DATA}/rates.json', 'format' = 'json');
CREATE TABLE timeless (cur STRING, rate INT, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${DATA}/rates.json', 'format' = 'json');

-- rowsort
SELECT s.id, r.rate, s.amount * r.rate AS total FROM sales s JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur;
-- rowsort
SELECT s.id, r.rate, r.`at` FROM sales s LEFT JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur;
-- rowsort
SELECT s.id, r.rate FROM sales s LEFT JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur AND r.rate > s.amount * 30;
-- rowsort
SELECT s.id, r.rate FROM sales s JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur WHERE r.rate > 100 AND s.id > 1;
SELECT s.id FROM sales s JOIN keyless FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur;
SELECT s.id FROM sales s JOIN timeless FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur;
SELECT s.id FROM sales s JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.amount = r.rate;
SELECT s.id FROM sales s RIGHT JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur;
SELECT s.id FROM sales s JOIN rates FOR SYSTEM_TIME AS OF s.amount AS r ON s.cur = r.cur;
SELECT s.id FROM sales s JOIN rates FOR SYSTEM_TIME AS OF TIMESTAMP '2024-05-01 10:00:00' AS r ON s.cur = r.cur;
