SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE sales (id INT, cur STRING, amount INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'path' = '${DATA}/sales.json', 'format' = 'json');
CREATE TABLE keyless (cur STRING, rate INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'path' = '${DATA}/rates.json', 'format' = 'json');
CREATE VIEW versions AS SELECT cur, rate, `at` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY `at` DESC) AS n FROM keyless) WHERE n = 1;
-- rowsort
SELECT s.id, v.rate FROM sales s LEFT JOIN versions FOR SYSTEM_TIME AS OF s.`at` AS v ON s.cur = v.cur;
-- rowsort
SELECT s.id, v.rate FROM sales s JOIN versions FOR SYSTEM_TIME AS OF s.`at` AS v ON s.cur = v.cur AND v.rate > s.amount;
-- rowsort
SELECT s.id, v.rate FROM sales s JOIN versions FOR SYSTEM_TIME AS OF s.`at` AS v ON s.cur = v.cur AND s.amount + 112 = v.rate;
-- rowsort
SELECT s.id, v.rate FROM sales s JOIN versions FOR SYSTEM_TIME AS OF s.`at` AS v ON s.cur = v.cur AND s.amount + 112 IS NOT DISTINCT FROM v.rate;
-- rowsort
SELECT s.id, v.rate FROM sales s JOIN versions FOR SYSTEM_TIME AS OF s.`at` AS v ON s.cur = v.cur AND s.amount IS NOT DISTINCT FROM v.rate - 112;
