-- Joins to versions of tables and of views.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE trades (id INT, cur STRING, n INT, `at` TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_trades.json');
CREATE TABLE rates (cur STRING, rate INT, src STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_rates.json');
CREATE TABLE loose (cur STRING, rate INT, src STRING, `at` TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_rates_null.json');
CREATE TABLE pairs (cur STRING, rate INT, src STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (cur, src) NOT ENFORCED) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_rates.json');
CREATE TABLE versions (cur STRING, rate INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector' = 'filesystem', 'format' = 'debezium-json', 'path' = '${DATA}/j_versions.json');
CREATE TABLE items (id INT, k INT, g STRING, v INT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_items.json');
CREATE VIEW last_rate AS SELECT cur, rate, `at` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY `at` DESC) AS n FROM loose) WHERE n = 1;
CREATE VIEW first_rate AS SELECT cur, rate, `at` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY `at`) AS n FROM loose) WHERE n = 1;
CREATE VIEW by_source AS SELECT cur, src, rate, `at` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur, src ORDER BY `at` DESC) AS n FROM loose WHERE rate > 99) WHERE n = 1;

-- materialized
SELECT t.id, r.rate FROM trades t JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT t.id, r.rate, r.`at` FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT t.id, r.rate FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur AND r.rate > 100 AND t.n < 80;
-- materialized
SELECT t.id, r.rate FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur AND t.n > r.rate;
SELECT t.id, t.n * r.rate AS x FROM trades t, rates FOR SYSTEM_TIME AS OF t.`at` AS r WHERE t.cur = r.cur AND r.src = 'x';
-- materialized
SELECT t.id, r.rate, s.rate FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur LEFT JOIN pairs FOR SYSTEM_TIME AS OF t.`at` AS s ON s.cur = t.cur AND s.src = r.src;
SELECT t.id, r.rate FROM trades t LEFT JOIN pairs FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur AND r.src = 'y';
-- materialized
SELECT t.id, r.rate FROM trades t JOIN last_rate FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT t.id, r.rate, r.`at` FROM trades t LEFT JOIN last_rate FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT t.id, r.rate, r.`at` FROM trades t LEFT JOIN first_rate FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
SELECT t.id, r.rate, r.src FROM trades t LEFT JOIN by_source FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur AND r.src = 'x';
SELECT t.id, r.rate FROM trades t LEFT JOIN by_source FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT t.id, r.rate, r.`at` FROM trades t LEFT JOIN versions FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT r.cur, COUNT(*) AS c, SUM(t.n) AS s FROM trades t JOIN versions FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur GROUP BY r.cur;
CREATE VIEW priced AS SELECT t.id, t.`at` AS ts, t.n * r.rate AS x FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
-- materialized
SELECT window_start, SUM(x) AS s, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE priced, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- materialized
SELECT a.id, b.id FROM priced a JOIN priced b ON a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts AND a.id < b.id;
-- materialized
SELECT t.id, UPPER(r.src) AS s FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON UPPER(t.cur) = r.cur;
SELECT t.id FROM trades t JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.src;
SELECT t.id FROM trades t JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.n > r.rate;
SELECT t.id FROM trades t FULL JOIN rates FOR SYSTEM_TIME AS OF t.`at` AS r ON t.cur = r.cur;
SELECT t.id FROM trades t JOIN rates FOR SYSTEM_TIME AS OF r.`at` AS r ON t.cur = r.cur;
SELECT * FROM rates FOR SYSTEM_TIME AS OF TIMESTAMP '2024-05-01 10:00:05';
SELECT t.id, r.rate FROM trades t JOIN rates FOR SYSTEM_TIME AS OF t.`at` ON t.cur = rates.cur;
-- materialized
SELECT t.id, r.rate FROM (SELECT *, `at` AS ts FROM trades WHERE n > 20) t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.cur = r.cur;
