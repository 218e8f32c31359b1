SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
SELECT id, item, amount FROM o ORDER BY amount DESC, id;
SELECT id, item, who FROM o ORDER BY who NULLS LAST, id DESC;
SELECT id, item, who FROM o ORDER BY who DESC, id LIMIT 4;
SELECT id, price FROM o ORDER BY price DESC, id LIMIT 3 OFFSET 2;
SELECT id FROM o ORDER BY id OFFSET 3 ROWS FETCH NEXT 2 ROWS ONLY;
SELECT item, SUM(amount) AS s FROM o GROUP BY item ORDER BY s DESC, item;
SELECT id FROM o ORDER BY MOD(id, 3), price * amount DESC, id;
SELECT item FROM o UNION ALL SELECT name FROM u ORDER BY 1;
SELECT k, v, ts FROM e ORDER BY ts DESC, v NULLS LAST, k;
SELECT ok, w FROM e ORDER BY ok DESC NULLS LAST, w;
SELECT * FROM (SELECT id, amount FROM o ORDER BY amount DESC, id LIMIT 2) ORDER BY id;
SELECT COUNT(*) AS n FROM (SELECT id FROM o LIMIT 3);
SELECT DISTINCT item FROM o ORDER BY item DESC;
SELECT id FROM o WHERE id > 1000 ORDER BY id;
-- differs: Flink cannot run OFFSET without LIMIT
SELECT id FROM o ORDER BY id OFFSET 2;
