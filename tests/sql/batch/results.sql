SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
SELECT k, v, w, ok, ts FROM e;
-- rowsort
SELECT k, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a, MAX(ts) AS m FROM e GROUP BY k;
-- rowsort
SELECT DISTINCT item FROM o;
SELECT COUNT(*) AS n, SUM(amount) AS s, MIN(price) AS m, AVG(amount) AS a FROM o WHERE id > 1000;
SELECT COUNT(DISTINCT item) AS n, LISTAGG(item) AS l FROM o WHERE id < 0;
SELECT COUNT(*) AS n FROM o HAVING COUNT(*) > 100;
SELECT item, COUNT(*) AS n FROM o WHERE id > 1000 GROUP BY item;
SELECT SUM(n) AS s, COUNT(*) AS c FROM (SELECT item, COUNT(*) AS n FROM o GROUP BY item);
-- rowsort
SELECT id, name FROM o LEFT JOIN u ON who = uid;
-- rowsort
SELECT id, name FROM o FULL JOIN u ON who = uid AND limit_ > 2;
-- rowsort
SELECT id FROM o WHERE who IN (SELECT uid FROM u);
-- rowsort
SELECT id FROM o WHERE NOT EXISTS (SELECT * FROM u WHERE uid = who);
-- rowsort
SELECT id FROM o WHERE EXISTS (SELECT * FROM u WHERE uid > 1000);
-- rowsort
SELECT id FROM o WHERE who NOT IN (SELECT uid FROM u WHERE uid > 1000);
-- rowsort
SELECT id, amount FROM o WHERE amount > (SELECT AVG(amount) FROM o);
-- rowsort
SELECT id, (SELECT COUNT(*) FROM u WHERE uid > 1000) AS n, (SELECT MAX(uid) FROM u WHERE uid > 1000) AS m FROM o;
-- rowsort
SELECT item FROM o EXCEPT SELECT item FROM u;
-- rowsort
SELECT item FROM o INTERSECT SELECT item FROM u;
-- rowsort
SELECT item FROM o UNION SELECT item FROM u;
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY ROLLUP (item, who);
-- rowsort
SELECT item, COUNT(*) AS n FROM (SELECT item, ROW_NUMBER() OVER (PARTITION BY item ORDER BY amount DESC, id) AS r FROM o) WHERE r <= 2 GROUP BY item;
