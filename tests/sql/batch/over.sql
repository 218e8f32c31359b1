SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
-- rowsort
SELECT id, COUNT(*) OVER () AS n, SUM(amount) OVER (PARTITION BY item) AS s FROM o;
-- rowsort
SELECT id, RANK() OVER (ORDER BY amount DESC) AS r, DENSE_RANK() OVER (ORDER BY amount DESC) AS d FROM o;
-- rowsort
SELECT id, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC, id DESC) AS n FROM o;
-- rowsort
SELECT id, LEAD(amount) OVER (ORDER BY id) AS a FROM o;
-- rowsort
SELECT id, LEAD(amount, 2, -1) OVER (PARTITION BY item ORDER BY id DESC) AS b FROM o;
-- rowsort
SELECT id, LAG(who) OVER (ORDER BY id) AS a, LAG(who, 1, -1) OVER (ORDER BY id) AS b FROM o;
-- rowsort
SELECT id, NTILE(3) OVER (ORDER BY id) AS n FROM o;
-- rowsort
SELECT id, NTILE(20) OVER (PARTITION BY item ORDER BY id) AS n FROM o;
-- rowsort
SELECT id, PERCENT_RANK() OVER (PARTITION BY item ORDER BY amount) AS p FROM o;
-- rowsort
SELECT id, CUME_DIST() OVER (ORDER BY price) AS c FROM o;
-- rowsort
SELECT id, SUM(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM o;
-- rowsort
SELECT id, SUM(amount) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS s, COUNT(*) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS c FROM o;
-- rowsort
SELECT id, MAX(price) OVER (PARTITION BY item ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS m FROM o;
-- rowsort
SELECT id, SUM(amount) OVER (ORDER BY amount RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s, COUNT(*) OVER (ORDER BY amount RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS c FROM o;
-- rowsort
SELECT id, COUNT(*) OVER (ORDER BY amount RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING) AS a, COUNT(*) OVER (ORDER BY who DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM o;
-- rowsort
SELECT id, COUNT(*) OVER (ORDER BY who RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS a, COUNT(*) OVER (ORDER BY who RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS b FROM o WHERE who IS NOT NULL;
-- rowsort
-- differs: in Flink a frame that begins with the first row is empty where the order of that is NULL
SELECT id, COUNT(*) OVER (ORDER BY who RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS b FROM o;
-- rowsort
-- differs: Flink ends with an error in code that it generates
SELECT k, v, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW) AS n FROM e WHERE ts IS NOT NULL;
-- rowsort
SELECT id, FIRST_VALUE(item) OVER (ORDER BY amount DESC, id) AS f, LAST_VALUE(item) OVER (ORDER BY amount, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM o;
-- rowsort
SELECT item, s, RANK() OVER (ORDER BY s DESC) AS r FROM (SELECT item, SUM(amount) AS s FROM o GROUP BY item);
-- rowsort
SELECT id, r FROM (SELECT id, RANK() OVER (PARTITION BY item ORDER BY amount) AS r FROM o) WHERE r <= 1;
-- rowsort
SELECT id, COUNT(*) OVER (ORDER BY price RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM o;
SELECT id, COUNT(*) OVER (ORDER BY item RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM o;
SELECT id, NTILE(0) OVER (ORDER BY id) AS n FROM o;
-- rowsort
SELECT id, AVG(price) OVER (PARTITION BY item ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS a FROM o;
