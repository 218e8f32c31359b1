-- LATERAL and subqueries that take the first rows for each row around them.
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
-- differs: Flink plans no LIMIT in LATERAL
SELECT name, t.id FROM u, LATERAL (SELECT id FROM o WHERE o.who = u.uid ORDER BY amount DESC, id LIMIT 1) AS t ORDER BY name;
-- differs: Flink plans no LIMIT in LATERAL
SELECT name, t.id FROM u LEFT JOIN LATERAL (SELECT id FROM o WHERE o.who = u.uid ORDER BY amount DESC, id LIMIT 2) AS t ON TRUE ORDER BY name, t.id;
-- differs: Flink plans no LIMIT in LATERAL
SELECT name, t.id FROM u, LATERAL (SELECT id FROM o WHERE o.who >= u.uid ORDER BY id LIMIT 1 OFFSET 1) AS t ORDER BY name;
SELECT name, t.id FROM u, LATERAL (SELECT id FROM o WHERE o.who = u.uid ORDER BY id) AS t ORDER BY name, t.id;
-- differs: Flink plans no LIMIT in a subquery that reads the row around it
SELECT name, (SELECT id FROM o WHERE o.who = u.uid ORDER BY amount DESC, id LIMIT 1) AS best FROM u ORDER BY name;
-- differs: Flink plans no LIMIT in a subquery that reads the row around it
SELECT name FROM u WHERE 6 IN (SELECT id FROM o WHERE o.who = u.uid ORDER BY amount DESC, id LIMIT 1) ORDER BY name;
-- differs: Flink numbers the rows before it asks which of them belong to the row around
SELECT name, t.id FROM u, LATERAL (SELECT id, ROW_NUMBER() OVER (ORDER BY amount) AS n FROM o WHERE o.who = u.uid) AS t WHERE n = 1 ORDER BY name;
-- differs: Flink plans no subquery over UNNEST
SELECT name FROM u WHERE EXISTS (SELECT 1 FROM UNNEST(ARRAY[uid, 1]) AS t (x) WHERE x > 11) ORDER BY name;
