SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE users (id INT, name STRING, lvl STRING, bal DECIMAL(8, 2), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_users_cdc.json', 'format' = 'debezium-json');
CREATE TABLE nokey (id INT, name STRING, lvl STRING, bal DECIMAL(8, 2)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_users_cdc.json', 'format' = 'debezium-json');
CREATE TABLE orders (order_id INT, cust STRING, sku STRING, qty INT, price DECIMAL(10, 2), cur STRING, status STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_orders.json', 'format' = 'json');
CREATE TABLE rate_rows (cur STRING, rate DECIMAL(10, 4), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_rates.json', 'format' = 'json');
CREATE VIEW rates_v AS SELECT cur, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY ts DESC) AS rn FROM rate_rows) WHERE rn = 1;
SELECT * FROM nokey;
SELECT lvl, COUNT(*) AS n, COUNT(lvl) AS c, SUM(bal) AS s, MIN(bal) AS mi, MAX(bal) AS ma, AVG(bal) AS av FROM users GROUP BY lvl;
SELECT n, COUNT(*) AS lvls FROM (SELECT lvl, COUNT(*) AS n FROM users GROUP BY lvl) GROUP BY n;
SELECT DISTINCT lvl FROM users;
SELECT COUNT(DISTINCT lvl) AS d, COUNT(DISTINCT name) FILTER (WHERE bal > 3) AS f FROM users;
SELECT lvl, ARRAY_AGG(name) AS a, LISTAGG(name, ';') AS l, FIRST_VALUE(name) AS f, LAST_VALUE(name) AS la, COLLECT(name) AS c FROM users GROUP BY lvl;
SELECT lvl, STDDEV_POP(bal) AS sp, VAR_SAMP(bal) AS vs, SUM(DISTINCT bal) AS sd, COUNT(*) FILTER (WHERE bal > 3) AS big FROM users GROUP BY lvl;
SELECT id, name, bal FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY bal DESC, id) AS rn FROM users) WHERE rn <= 2;
SELECT id, name, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY lvl ORDER BY bal DESC, id) AS rn FROM users) WHERE rn <= 2;
SELECT id, name FROM users ORDER BY name LIMIT 3;
SELECT lvl, n FROM (SELECT lvl, COUNT(*) AS n FROM users GROUP BY lvl) ORDER BY n DESC, lvl LIMIT 1;
SELECT id, UPPER(name) AS u, CASE WHEN bal < 0 THEN 'debt' ELSE 'ok' END AS st FROM users WHERE lvl = 'gold';
SELECT id, name FROM users WHERE name LIKE '%e%' OR name IS NULL;
SELECT lvl, GROUPING(lvl) AS g, COUNT(*) AS n FROM users GROUP BY ROLLUP (lvl);
-- materialized
SELECT u.name, t.x FROM users AS u CROSS JOIN UNNEST(ARRAY[1, 2]) AS t (x);
-- materialized
SELECT a.id, b.id AS bid FROM users AS a JOIN users AS b ON a.lvl = b.lvl AND a.id < b.id;
-- materialized
SELECT a.lvl, a.n, b.m FROM (SELECT lvl, COUNT(*) AS n FROM users GROUP BY lvl) AS a LEFT JOIN (SELECT lvl, MAX(bal) AS m FROM users GROUP BY lvl) AS b ON a.lvl = b.lvl;
-- materialized
SELECT id FROM users WHERE lvl IN (SELECT lvl FROM users GROUP BY lvl HAVING COUNT(*) > 1);
-- materialized
SELECT id, name FROM users AS u WHERE bal = (SELECT MAX(bal) FROM users AS x WHERE x.lvl = u.lvl);
-- materialized
SELECT o.order_id, o.cur, r.rate, CAST(o.price * r.rate AS DECIMAL(12, 2)) AS eur FROM orders AS o LEFT JOIN rates_v FOR SYSTEM_TIME AS OF o.ts AS r ON o.cur = r.cur;
-- materialized
SELECT o.cur, SUM(o.price * r.rate) AS eur FROM orders AS o JOIN rates_v FOR SYSTEM_TIME AS OF o.ts AS r ON o.cur = r.cur GROUP BY o.cur;
SELECT * FROM rates_v;
SELECT cur, COUNT(*) AS versions FROM rate_rows GROUP BY cur;
SELECT order_id, status, n FROM (SELECT order_id, status, COUNT(*) AS n FROM orders GROUP BY order_id, status) WHERE n > 1;
SELECT status, COUNT(*) AS n FROM (SELECT order_id, LAST_VALUE(status) AS status FROM orders GROUP BY order_id) GROUP BY status;
-- materialized
SELECT k, SUM(v) AS s FROM (SELECT cust AS k, qty AS v FROM orders UNION ALL SELECT lvl AS k, id AS v FROM users) GROUP BY k;
SELECT order_id, MAX(price) AS p, CAST(MAX(price) AS INT) AS i, ROUND(SUM(price * qty), 0) AS r FROM orders GROUP BY order_id HAVING MAX(price) IS NOT NULL;
SELECT cust, SUM(qty * price) AS s, SUM(qty * price) * 100 / NULLIF(SUM(price), 0) AS pct FROM orders GROUP BY cust;
SELECT sku, COUNT(*) AS n, COUNT(*) FILTER (WHERE status = 'paid') * 1.0 / COUNT(*) AS rate FROM orders GROUP BY sku;
SELECT cust, order_id, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cust ORDER BY ts DESC) AS rn FROM orders WHERE price > 1) WHERE rn <= 2;
SELECT cust, FIRST_VALUE(sku) AS f, MIN(ts) AS t FROM orders GROUP BY cust;
-- materialized
SELECT x.cust, x.c, y.s FROM (SELECT cust, COUNT(*) AS c FROM orders GROUP BY cust) AS x JOIN (SELECT cust, SUM(price) AS s FROM orders GROUP BY cust) AS y ON x.cust = y.cust WHERE y.s > 100;
SELECT order_id, was, status, COUNT(*) AS n FROM (SELECT order_id, status, LAG(status) OVER (PARTITION BY order_id ORDER BY ts) AS was FROM orders) GROUP BY order_id, was, status;
SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY order_id ORDER BY ts MEASURES FIRST(A.status) AS f, LAST(A.status) AS l, COUNT(A.status) AS n, B.ts AS e AFTER MATCH SKIP PAST LAST ROW PATTERN (A+? B) DEFINE B AS B.status = 'shipped') AS m;
SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY cust ORDER BY ts MEASURES A.price AS p1, B.price AS p2, C.price AS p3, MATCH_ROWTIME() AS mt AFTER MATCH SKIP TO FIRST B PATTERN (A B C) WITHIN INTERVAL '8' MINUTE DEFINE B AS B.price >= A.price, C AS C.price < B.price);
