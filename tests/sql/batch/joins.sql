SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
CREATE TABLE b (id INT, tags ARRAY<STRING>)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/baskets.json', 'format' = 'json', 'json.ignore-parse-errors' = 'true');
-- rowsort
SELECT o.id, u.name FROM o JOIN u ON o.who = u.uid;
-- rowsort
SELECT o.id, u.name FROM o LEFT JOIN u ON o.who = u.uid AND o.amount > 2;
-- rowsort
SELECT o.id, u.name FROM o RIGHT JOIN u ON o.who = u.uid AND u.limit_ > 5;
-- rowsort
SELECT o.id, u.uid, u.item FROM o FULL JOIN u ON o.item = u.item AND o.amount < u.limit_;
-- rowsort
SELECT o.id, u.uid FROM o, u WHERE o.amount > u.limit_;
-- rowsort
SELECT a.id, c.id FROM o a JOIN o c ON a.who IS NOT DISTINCT FROM c.who AND a.id < c.id;
-- rowsort
SELECT * FROM o NATURAL JOIN (SELECT item FROM u) x;
-- rowsort
SELECT item, o.id, u.uid FROM o JOIN u USING (item);
-- rowsort
SELECT id FROM o WHERE who IN (SELECT uid FROM u WHERE limit_ > 3);
-- rowsort
SELECT id FROM o WHERE who NOT IN (SELECT uid FROM u WHERE uid IS NOT NULL);
-- rowsort
SELECT id FROM o WHERE who NOT IN (SELECT uid FROM u);
-- rowsort
SELECT id FROM o WHERE EXISTS (SELECT 1 FROM u WHERE u.uid = o.who AND u.limit_ > o.amount);
-- rowsort
SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.item = o.item);
-- rowsort
SELECT id, (SELECT MAX(limit_) FROM u) AS m FROM o;
-- rowsort
SELECT id, (SELECT COUNT(*) FROM u WHERE u.uid = o.who) AS n FROM o;
-- rowsort
SELECT id FROM o WHERE amount > (SELECT AVG(amount) FROM o);
-- rowsort
SELECT id FROM o WHERE amount >= (SELECT MAX(limit_) - 5 FROM u WHERE u.item = o.item);
-- rowsort
SELECT item FROM o UNION SELECT item FROM u;
-- rowsort
SELECT item FROM o INTERSECT SELECT item FROM u;
-- rowsort
SELECT item FROM o INTERSECT ALL SELECT item FROM u;
-- rowsort
SELECT item FROM o EXCEPT SELECT item FROM u;
-- rowsort
SELECT item FROM o EXCEPT ALL SELECT item FROM u;
-- rowsort
SELECT id, tag, n FROM b CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n);
-- rowsort
SELECT id, tag FROM b LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;
-- rowsort
SELECT a.k, c.v FROM e a JOIN e c ON a.k = c.k AND a.ts BETWEEN c.ts - INTERVAL '5' SECOND AND c.ts;
-- rowsort
SELECT a.k, c.v FROM e a LEFT JOIN e c ON a.k = c.k AND c.v > a.v AND c.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND;
-- rowsort
SELECT x.item, x.s, u.name FROM (SELECT item, SUM(amount) AS s FROM o GROUP BY item) x LEFT JOIN u ON x.item = u.item;
-- rowsort
SELECT u.name, COUNT(o.id) AS n, SUM(o.amount) AS s FROM u LEFT JOIN o ON o.who = u.uid GROUP BY u.name;
-- rowsort
WITH big AS (SELECT * FROM o WHERE amount > 2), per AS (SELECT who, COUNT(*) AS n FROM big GROUP BY who)
SELECT big.id, per.n FROM big JOIN per ON big.who = per.who;
-- rowsort
SELECT o.id, u.name, b.tags FROM o JOIN u ON o.who = u.uid LEFT JOIN b ON b.id = o.id;
-- rowsort
SELECT id, x.m FROM o, LATERAL (SELECT MAX(limit_) AS m FROM u WHERE u.uid = o.who) AS x;
SELECT COUNT(*) AS n FROM o, u, b;
