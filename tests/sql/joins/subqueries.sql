CREATE TABLE orders (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE users (uid BIGINT, name STRING, item STRING, limit_ INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');

-- materialized
SELECT id, item FROM orders WHERE who IN (SELECT uid FROM users);
-- materialized
SELECT id FROM orders WHERE item IN (SELECT item FROM users WHERE limit_ > 3) AND amount > 2;
-- materialized
SELECT id FROM orders WHERE who NOT IN (SELECT uid FROM users);
-- materialized
SELECT id FROM orders WHERE who NOT IN (SELECT uid FROM users WHERE uid IS NOT NULL);
-- materialized
SELECT id FROM orders WHERE (who, item) IN (SELECT CAST(uid AS INT), item FROM users);
-- materialized
SELECT id FROM orders o WHERE EXISTS (SELECT * FROM users u WHERE u.uid = o.who AND u.limit_ < o.amount);
-- materialized
SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.item = o.item);
-- materialized
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM users u WHERE u.limit_ > o.amount);
-- materialized
SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM users WHERE limit_ > 4);
-- materialized
SELECT id FROM orders WHERE NOT EXISTS (SELECT 1 FROM users WHERE limit_ > 40);
-- materialized
SELECT name FROM users u WHERE uid IN (SELECT who FROM orders o WHERE o.item = u.item);
-- materialized
SELECT name FROM users u WHERE uid NOT IN (SELECT who FROM orders o WHERE o.item = u.item);
-- materialized
SELECT id, amount FROM orders WHERE amount > (SELECT AVG(limit_) FROM users);
-- materialized
SELECT id, (SELECT MAX(limit_) FROM users) AS m FROM orders;
-- materialized
SELECT id, (SELECT MAX(limit_) FROM users u WHERE u.uid = o.who) AS m FROM orders o;
-- materialized
SELECT id FROM orders o WHERE amount = (SELECT MAX(amount) FROM orders p WHERE p.item = o.item);
-- materialized
SELECT id, (SELECT COUNT(*) FROM users u WHERE u.uid = o.who) AS n FROM orders o;
-- materialized
SELECT id, (SELECT COUNT(*) FROM users WHERE limit_ > 40) AS n FROM orders;
-- materialized
SELECT id FROM orders o WHERE who IN (SELECT uid FROM users) OR amount > 4;
-- materialized
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM users u WHERE u.uid = o.who) OR id = 3;
-- materialized
SELECT id, who IN (SELECT uid FROM users WHERE uid IS NOT NULL) AS known FROM orders;
-- materialized
SELECT id, who NOT IN (SELECT uid FROM users) AS strange FROM orders;
-- materialized
SELECT id, CASE WHEN EXISTS (SELECT 1 FROM users u WHERE u.item = o.item) THEN 'yes' ELSE 'no' END AS sold FROM orders o;
-- materialized
SELECT item, COUNT(*) AS n FROM orders GROUP BY item HAVING COUNT(*) >= (SELECT COUNT(*) FROM users WHERE item = 'pen');
-- materialized
SELECT item, SUM(amount) AS s, (SELECT MIN(limit_) FROM users) AS m FROM orders GROUP BY item;
-- materialized
SELECT id FROM orders WHERE who = (SELECT uid FROM users WHERE name = 'dan');
-- materialized
SELECT id, (SELECT name FROM users u WHERE u.uid = o.id + 9) AS name FROM orders o WHERE o.id IN (1, 3, 4);
-- materialized
SELECT name FROM users WHERE item IN (SELECT item FROM orders GROUP BY item HAVING COUNT(*) > 1);
-- materialized
SELECT id FROM orders o WHERE who IN (SELECT uid FROM users u WHERE EXISTS (SELECT 1 FROM orders p WHERE p.item = u.item AND p.id <> o.id));
-- materialized
SELECT id FROM orders WHERE who = ANY (SELECT uid FROM users);
-- materialized
SELECT id FROM orders WHERE who IN (SELECT uid FROM users WHERE name = 'nobody') OR id = 1;
SELECT id FROM orders WHERE who IN (SELECT uid, name FROM users);
SELECT id, (SELECT uid, name FROM users) FROM orders;
