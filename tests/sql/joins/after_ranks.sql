-- Ranks within windows give rows that only come: joins by time, and of windows, take them.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
CREATE TABLE trades (id INT, cur STRING, n INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_trades.json');
CREATE VIEW best AS SELECT window_start, window_end, window_time AS wt, k, price, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, ts, k, tax, s) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 2;
-- materialized
SELECT a.price, b.price FROM best a JOIN best b ON a.wt BETWEEN b.wt - INTERVAL '10' SECOND AND b.wt AND a.n = b.n;
-- materialized
SELECT a.price, a.n, b.id FROM best a LEFT JOIN trades b ON a.n = b.id AND b.`at` BETWEEN a.wt - INTERVAL '20' SECOND AND a.wt + INTERVAL '20' SECOND;
-- materialized
SELECT a.price, b.price, a.n FROM best a JOIN best b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.n < b.n;
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_parts.json');
-- differs: nothing is in a list without members; beside UNNEST Flink's rows wait for a member for ever
SELECT pid, x FROM (SELECT pid, x FROM parts CROSS JOIN UNNEST(ARRAY[w, w + 1]) AS u (x)) WHERE pid NOT IN (SELECT pid + 1 FROM parts WHERE name = 'nobody');
