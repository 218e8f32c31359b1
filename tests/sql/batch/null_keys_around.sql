SET 'execution.runtime-mode' = 'batch';
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
-- differs: IS NOT DISTINCT FROM finds NULL beside a column of the query around, too
SELECT id, (SELECT MAX(amount) FROM o b WHERE b.who IS NOT DISTINCT FROM a.who) AS m FROM o a ORDER BY id;
SELECT a.id, MAX(b.amount) AS m FROM o a LEFT JOIN o b ON b.who IS NOT DISTINCT FROM a.who GROUP BY a.id ORDER BY id;
