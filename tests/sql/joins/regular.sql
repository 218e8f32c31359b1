CREATE TABLE orders (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE users (uid BIGINT, name STRING, item STRING, limit_ INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');

-- rowsort
SELECT * FROM orders JOIN users ON who = uid;
-- rowsort
SELECT o.id, u.name FROM orders AS o INNER JOIN users u ON o.who = u.uid AND o.amount > u.limit_;
-- rowsort
SELECT o.id, u.name FROM orders o, users u WHERE o.item = u.item AND o.who <> u.uid;
-- rowsort
SELECT id, name FROM orders CROSS JOIN users WHERE id < 3;
-- rowsort
SELECT a.id, b.id FROM orders a JOIN orders b ON a.who = b.who AND a.id < b.id;
-- rowsort
SELECT o.id, u.name FROM orders o JOIN users u ON o.amount BETWEEN u.limit_ AND u.limit_ + 1;
-- rowsort
SELECT o.id, u.name FROM orders o JOIN users u ON UPPER(o.item) = UPPER(u.item) AND MOD(u.uid, 2) = 0;
-- rowsort
SELECT o.id, u.name FROM orders o JOIN users u ON o.item IS NOT DISTINCT FROM u.item;
-- rowsort
SELECT o.id, u.name FROM orders o JOIN users u ON o.item = u.item OR (o.item IS NULL AND u.item IS NULL);
-- rowsort
SELECT o.id, u.name FROM orders o JOIN users u ON o.item = u.item OR o.who = u.uid;
-- rowsort
SELECT * FROM orders JOIN users USING (item);
-- rowsort
SELECT * FROM (SELECT id, item FROM orders) NATURAL JOIN (SELECT item, name FROM users) AS u;
-- rowsort
SELECT orders.*, item, users.item, name FROM orders JOIN users USING (item);
-- materialized
SELECT o.id, u.name FROM orders o LEFT JOIN users u ON o.who = u.uid;
-- materialized
SELECT o.id, u.name, u.limit_ + 1 AS more FROM orders o LEFT OUTER JOIN users u ON o.who = u.uid AND u.limit_ > 2 AND o.id <> 1;
-- materialized
SELECT o.id, u.name FROM orders o RIGHT JOIN users u ON o.item = u.item;
-- materialized
SELECT o.id, u.name FROM orders o FULL OUTER JOIN users u ON o.who = u.uid AND o.item = u.item;
-- materialized
SELECT * FROM (SELECT id, item FROM orders) FULL JOIN (SELECT item, name FROM users) AS u USING (item);
-- materialized
SELECT o.id, u.name FROM orders o LEFT JOIN users u ON o.amount > u.limit_;
-- materialized
SELECT o.id, u.name FROM orders o FULL JOIN users u ON FALSE;
-- materialized
SELECT o.id, u.name FROM orders o LEFT JOIN users u ON o.who = u.uid WHERE u.name IS NULL;
-- rowsort
SELECT o.id, u.name FROM orders o LEFT JOIN users u ON o.who = u.uid WHERE u.limit_ > 1;
-- materialized
SELECT o.id, u.name, p.name FROM orders o LEFT JOIN users u ON o.who = u.uid LEFT JOIN users p ON o.item = p.item;
-- rowsort
SELECT o.id, u.name, p.id FROM orders o JOIN users u ON o.who = u.uid JOIN orders p ON p.item = u.item AND p.amount = o.amount;
-- materialized
SELECT u.name, t.n, t.s FROM (SELECT who, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY who) t JOIN users u ON t.who = u.uid;
-- materialized
SELECT u.name, t.n FROM users u LEFT JOIN (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) t ON t.who = u.uid;
-- materialized
SELECT t.item, t.n, s.m FROM (SELECT item, COUNT(*) AS n FROM orders GROUP BY item) t FULL JOIN (SELECT item, MAX(limit_) AS m FROM users GROUP BY item) s ON t.item = s.item;
-- materialized
SELECT t.who, s.item FROM (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) t LEFT JOIN (SELECT item, COUNT(*) AS n FROM users GROUP BY item) s ON t.n = s.n;
-- materialized
SELECT name, COUNT(id) AS n, SUM(price * amount) AS total FROM users LEFT JOIN orders ON uid = who GROUP BY name;
-- materialized
SELECT * FROM (orders o JOIN users u ON o.who = u.uid) JOIN (SELECT MAX(id) AS m FROM orders) x ON o.id <= x.m;
-- rowsort
SELECT id FROM orders JOIN users ON who = name;
SELECT item FROM orders JOIN users ON who = uid;
SELECT * FROM orders JOIN users USING (nothing);
SELECT * FROM orders JOIN users ON who;
