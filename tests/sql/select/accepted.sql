-- What Flink cannot plan, or fails at, and the engine runs.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
CREATE TABLE n (id INT, xs ARRAY<INT>, ss ARRAY<STRING>)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_nested.json', 'format' = 'json');
CREATE TABLE sales (id INT, cur STRING, amount INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/sales.json', 'format' = 'json');
CREATE TABLE rates (cur STRING, rate INT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`, PRIMARY KEY (cur) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/rates.json', 'format' = 'json');
-- differs: Flink plans one window of OVER in a SELECT
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS a, COUNT(*) OVER (ORDER BY ts) AS b FROM e;
-- differs: Flink plans one window of OVER in a SELECT
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS a, COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM e;
-- materialized
-- differs: Flink plans one window of OVER in a SELECT
SELECT id, SUM(amount) OVER (PARTITION BY item ORDER BY id) AS a, COUNT(*) OVER (PARTITION BY who ORDER BY amount) AS b FROM o;
-- differs: Flink fails at LAG in an order that is no time
SELECT k, v, LAG(v) OVER (PARTITION BY k ORDER BY v) AS a FROM e;
-- differs: Flink has no FIRST_VALUE of windows that are merged
SELECT SESSION_START(ts, INTERVAL '5' SECOND) AS a, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l FROM e GROUP BY SESSION(ts, INTERVAL '5' SECOND);
-- differs: Flink has no FIRST_VALUE of windows that are merged
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS a, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l FROM e GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);
-- differs: Flink has no FIRST_VALUE of windows that are merged
SELECT window_start, k, FIRST_VALUE(v) AS f FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;
-- materialized
-- differs: Flink plans no subquery over UNNEST
SELECT id FROM n WHERE EXISTS (SELECT 1 FROM UNNEST(xs) AS t (x) WHERE x > 1);
-- materialized
-- differs: Flink plans no subquery over UNNEST
SELECT id FROM n WHERE 'a' IN (SELECT x FROM UNNEST(ss) AS t (x));
-- materialized
-- differs: Flink plans no subquery over UNNEST
SELECT id FROM n WHERE id NOT IN (SELECT x FROM UNNEST(xs) AS t (x));
-- materialized
-- differs: Flink plans no subquery over UNNEST
SELECT id, (SELECT COUNT(*) FROM UNNEST(xs) AS t (x)) AS c, (SELECT MAX(x) FROM UNNEST(xs) AS t (x)) AS m FROM n;
-- materialized
-- differs: Flink plans no LIMIT in LATERAL
SELECT name, t.id FROM u, LATERAL (SELECT id FROM o WHERE o.who = u.uid ORDER BY amount DESC, id LIMIT 1) AS t;
-- materialized
-- differs: Flink plans no LIMIT in LATERAL
SELECT name, t.id FROM u LEFT JOIN LATERAL (SELECT id FROM o WHERE o.who = u.uid ORDER BY amount DESC, id LIMIT 2) AS t ON TRUE;
-- differs: Flink's parser takes OFFSET for the end of a query
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '5' SECOND, OFFSET => INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
-- differs: Flink takes named arguments in the order of their declaration only
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(SIZE => INTERVAL '5' SECOND, TIMECOL => DESCRIPTOR(ts), DATA => TABLE e)) GROUP BY window_start, window_end;
-- differs: Flink fails where some arguments have names
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), SIZE => INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- materialized
-- differs: Flink loses the key of a join whose condition is false
SELECT s.id, r.rate FROM sales s LEFT JOIN rates FOR SYSTEM_TIME AS OF s.`at` AS r ON s.cur = r.cur AND FALSE;
-- materialized
-- differs: Flink does not find the name of a column in an expression of ORDER BY where the query is a value or a condition
SELECT item, (SELECT MAX(n) FROM (SELECT amount AS n FROM o ORDER BY n + 1 LIMIT 2) AS s) AS m FROM o WHERE id = 1;
