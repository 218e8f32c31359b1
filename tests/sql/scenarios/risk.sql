SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE transfers (id BIGINT, src STRING, dst STRING, amount DECIMAL(12, 2), currency STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/risk_transfers.json', 'format' = 'json');
CREATE TABLE blocked (account STRING, reason STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/risk_blocked.json', 'format' = 'json');
CREATE TABLE limits (account STRING, max_amount DECIMAL(12, 2), daily INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/risk_limits.json', 'format' = 'json');

-- materialized
SELECT t.id, t.src, t.amount, l.max_amount FROM transfers AS t JOIN limits AS l ON t.src = l.account WHERE t.amount > l.max_amount;
-- materialized
SELECT t.id, t.dst, b.reason FROM transfers AS t LEFT JOIN blocked AS b ON t.dst = b.account;
-- materialized
SELECT id FROM transfers WHERE dst NOT IN (SELECT account FROM blocked);
-- materialized
SELECT id, dst FROM transfers WHERE dst IN (SELECT account FROM blocked) OR amount > 1000;
-- materialized
SELECT id, dst FROM transfers AS t WHERE NOT EXISTS (SELECT 1 FROM blocked AS b WHERE b.account = t.dst) AND amount IS NOT NULL;
-- rowsort
SELECT id, src, amount, SUM(amount) OVER w AS sum_1m, COUNT(*) OVER w AS n_1m, MAX(amount) OVER w AS max_1m FROM transfers WINDOW w AS (PARTITION BY src ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW);
-- rowsort
SELECT src, window_start, window_end, SUM(amount) AS total, COUNT(DISTINCT dst) AS partners FROM TABLE(TUMBLE(TABLE transfers, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY src, window_start, window_end HAVING SUM(amount) > 1000;
-- materialized
SELECT a.id AS there, b.id AS back FROM transfers AS a JOIN transfers AS b ON a.src = b.dst AND a.dst = b.src AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE;
-- materialized
SELECT a.src, a.id AS first_id, b.id AS next_id FROM transfers AS a, transfers AS b WHERE a.src = b.src AND a.amount = b.amount AND a.id < b.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' MINUTE;
SELECT src, SUM(CASE currency WHEN 'EUR' THEN amount * 11.5 WHEN 'USD' THEN amount * 10.5 ELSE amount END) AS nok FROM transfers GROUP BY src;
-- materialized
SELECT s.src, s.n, l.daily, s.n > l.daily AS too_many FROM (SELECT src, COUNT(*) AS n FROM transfers GROUP BY src) AS s LEFT JOIN limits AS l ON l.account = s.src;
SELECT id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY src ORDER BY amount DESC, id) AS n FROM transfers WHERE amount IS NOT NULL) WHERE n <= 2;
SELECT id, CASE WHEN amount >= 5000 THEN 'block' WHEN amount >= 900 AND currency <> 'NOK' THEN 'review' WHEN amount IS NULL THEN 'broken' ELSE 'pass' END AS verdict FROM transfers;
SELECT verdict, COUNT(*) AS n FROM (SELECT CASE WHEN amount >= 5000 THEN 'block' WHEN amount >= 900 THEN 'review' ELSE 'pass' END AS verdict FROM transfers) GROUP BY verdict;
-- materialized
SELECT id, amount, (SELECT MAX(max_amount) FROM limits) AS highest FROM transfers WHERE amount > (SELECT MIN(max_amount) FROM limits);
-- materialized
SELECT id, src, (SELECT l.max_amount FROM limits AS l WHERE l.account = t.src) AS own_limit FROM transfers AS t WHERE id < 8;
-- rowsort
SELECT src, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS ended, SUM(amount) AS total FROM transfers WHERE amount > 100 GROUP BY src, TUMBLE(ts, INTERVAL '1' MINUTE);
-- materialized
SELECT account FROM limits UNION SELECT src FROM transfers UNION SELECT account FROM blocked;
-- rowsort
SELECT currency, src, dst, SUM(amount) AS total FROM transfers GROUP BY GROUPING SETS ((currency), (src, dst), ());
-- rowsort
SELECT src, id, amount, amount - AVG(amount) OVER (PARTITION BY src ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS off FROM transfers WHERE amount IS NOT NULL;
-- materialized
SELECT l.account, x.total FROM limits AS l LEFT JOIN LATERAL (SELECT SUM(amount) AS total FROM transfers AS t WHERE t.src = l.account) AS x ON TRUE;
-- rowsort
SELECT * FROM transfers MATCH_RECOGNIZE (PARTITION BY src ORDER BY ts MEASURES A.id AS little, LAST(B.id) AS big AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE A AS A.amount < 300, B AS B.amount > 900);
SELECT id, TRY_CAST(SUBSTRING(src, 2) AS INT) + 1 AS next_no, dst IS DISTINCT FROM 'B1' AS other FROM transfers WHERE NOT (currency = 'EUR' AND amount > 100);
