-- No row ever comes, and the query says so: Flink answers aggregates of all rows while it plans.
CREATE TABLE orders (order_id INT, user_id INT, product STRING, qty INT, price DOUBLE, status STRING, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shop_orders.json', 'format' = 'json');
CREATE TABLE users (user_id INT, name STRING, level STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shop_users.json', 'format' = 'json');
SELECT COUNT(*) AS n FROM orders WHERE 1 = 0;
SELECT COUNT(*) AS n FROM orders WHERE qty > 5 AND FALSE;
SELECT COUNT(*) AS n FROM orders WHERE CAST(NULL AS BOOLEAN);
SELECT COUNT(*) AS n, SUM(qty) AS s, MIN(qty) AS m, MAX(product) AS x FROM orders WHERE FALSE;
SELECT AVG(qty) AS a FROM orders WHERE FALSE;
SELECT COUNT(DISTINCT qty) AS a FROM orders WHERE FALSE;
SELECT STDDEV_POP(qty) AS a FROM orders WHERE FALSE;
SELECT FIRST_VALUE(qty) AS a FROM orders WHERE FALSE;
SELECT LISTAGG(product) AS a FROM orders WHERE FALSE;
SELECT COUNT(*) FILTER (WHERE qty > 1) AS a FROM orders WHERE FALSE;
SELECT COUNT(*) AS n FROM (SELECT * FROM orders LIMIT 0);
SELECT COUNT(*) AS n FROM orders o JOIN (SELECT * FROM users WHERE FALSE) u ON o.user_id = u.user_id;
SELECT COUNT(*) AS n FROM orders o LEFT JOIN (SELECT * FROM users WHERE FALSE) u ON o.user_id = u.user_id;
SELECT COUNT(*) AS n FROM orders WHERE user_id IN (SELECT user_id FROM users WHERE FALSE);
SELECT COUNT(*) AS n FROM orders WHERE user_id NOT IN (SELECT user_id FROM users WHERE FALSE);
SELECT COUNT(*) AS n FROM (SELECT order_id FROM orders WHERE FALSE UNION ALL SELECT user_id FROM users WHERE FALSE);
SELECT COUNT(*) AS n FROM (SELECT order_id FROM orders WHERE FALSE UNION SELECT user_id FROM users WHERE FALSE);
SELECT COUNT(*) AS n FROM (SELECT order_id FROM orders WHERE FALSE INTERSECT SELECT user_id FROM users);
SELECT COUNT(*) AS n FROM (SELECT user_id, COUNT(*) AS c FROM orders WHERE FALSE GROUP BY user_id);
SELECT COUNT(*) + 1 AS n FROM orders WHERE FALSE HAVING COUNT(*) = 0;
SELECT COUNT(*) AS n FROM (SELECT COUNT(*) AS c FROM orders WHERE FALSE);
-- materialized
SELECT order_id, (SELECT COUNT(*) FROM users WHERE FALSE) AS c FROM orders WHERE order_id < 3;
SELECT SUM(x) AS s FROM (VALUES (1)) AS t(x) WHERE x > 5;
SELECT COUNT(*) AS n FROM (VALUES (1)) AS t(x) WHERE x > 5;
SELECT COUNT(*) AS n FROM orders WHERE qty > 1000;
SELECT qty, COUNT(*) AS n FROM orders WHERE FALSE GROUP BY qty;
SELECT COUNT(*) AS n FROM orders WHERE FALSE GROUP BY ();
SELECT COUNT(*) AS n FROM orders WHERE FALSE GROUP BY GROUPING SETS ((qty), ());
SELECT * FROM orders WHERE FALSE;
SELECT COUNT(*) AS n, COUNT(qty) AS c, SUM(price) AS s FROM orders, users WHERE FALSE;
SELECT COUNT(*) AS n FROM orders WHERE product LIKE 'x' AND product IS NULL AND 1 > 2;
SELECT ROW_NUMBER() OVER (ORDER BY ts) AS n FROM orders WHERE FALSE;
SELECT COUNT(*) AS n FROM users WHERE user_id <> user_id;
SELECT COUNT(*) AS n FROM users WHERE user_id > 3 AND user_id < 3;
SELECT SUM(DISTINCT user_id) AS n FROM users WHERE FALSE;
SELECT SINGLE FROM (SELECT COUNT(*) AS SINGLE FROM users WHERE FALSE) WHERE SINGLE > 0;
SELECT MIN(qty) AS m, COUNT(DISTINCT price) AS n FROM orders WHERE product IS DISTINCT FROM product;
SELECT COUNT(*) AS n FROM (SELECT user_id, COUNT(*) AS c FROM orders GROUP BY user_id) WHERE NOT ((c IS NULL) IS FALSE);
SELECT COUNT(*) AS n FROM (SELECT user_id, COUNT(*) AS c FROM orders GROUP BY user_id) WHERE (c IS NOT NULL) IS NOT TRUE;
SELECT COUNT(*) AS n FROM orders o JOIN users u ON o.user_id = u.user_id AND (u.name IS NULL) IS UNKNOWN;
SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM users u WHERE o.user_id = u.user_id AND u.level IS DISTINCT FROM u.level);
-- Groups by literals alone are none of all rows.
SELECT 'ab' AS k, COUNT(*) AS n FROM orders WHERE CAST(NULL AS BOOLEAN) GROUP BY 'ab';
SELECT COUNT(*) AS n, SUM(qty) AS s FROM orders WHERE FALSE GROUP BY 1 + 1;
SELECT 'ab' AS k, 'c' AS l, COUNT(*) AS n FROM orders GROUP BY 'ab', 'c';
-- Flink does not look below OVER.
SELECT COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY qty) AS r FROM orders WHERE FALSE) WHERE r < 3;
SELECT COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY qty) AS r FROM orders WHERE qty IS DISTINCT FROM qty) WHERE r = 1;
-- materialized
SELECT name, (SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY qty) AS r FROM orders WHERE FALSE) WHERE r = 1) AS n FROM users;
-- materialized
SELECT name, (SELECT COUNT(*) FROM (SELECT DISTINCT qty FROM orders WHERE FALSE)) AS n FROM users;
-- What is asked of CASE is asked of each branch.
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN qty > 1 THEN 'ab' ELSE '' END LIKE 'a!_%' ESCAPE '!';
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN qty > 1 THEN 1 WHEN qty < 0 THEN 5 END > 7;
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN qty > 1 THEN 1 ELSE 2 END IN (4, 5) AND user_id > 0;
SELECT COUNT(*) AS n FROM orders WHERE NOT (CASE WHEN qty > 1 THEN 1 ELSE 2 END < 5);
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN qty > 1 THEN 1 ELSE 2 END IS NULL;
SELECT COUNT(*) AS n FROM orders WHERE UPPER(CASE WHEN qty > 1 THEN 'a' ELSE 'b' END) = 'c';
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN qty > 1 THEN 1 ELSE 9 END > 9 AND CASE WHEN qty > 1 THEN 1 ELSE 9 END < 20;
-- Arrays, maps and rows of literals are known, too.
SELECT MIN(qty), COUNT(*) FROM orders WHERE ARRAY_JOIN(ARRAY['ab', ''], ',') = 'x';
SELECT MIN(qty), COUNT(*) FROM orders WHERE CARDINALITY(ARRAY[1, 2]) = 3;
SELECT MIN(qty), COUNT(*) FROM orders WHERE ARRAY[1, 2][1] = 3;
SELECT MIN(qty), COUNT(*) FROM orders WHERE ARRAY_CONTAINS(ARRAY[1, 2], 3);
SELECT MIN(qty), COUNT(*) FROM orders WHERE MAP['a', 1]['a'] = 3;
SELECT MIN(qty), COUNT(*) FROM orders WHERE ARRAY[1, 2] = ARRAY[1, 3];
SELECT MIN(qty), COUNT(*) FROM orders WHERE ROW(1, 2) = ROW(1, 3);
SELECT MIN(qty), COUNT(*) FROM orders WHERE ROW(1, 2) <> ROW(1, 2);
SELECT MIN(qty), COUNT(*) FROM orders WHERE ELEMENT(ARRAY[1]) = 3;
SELECT MIN(qty), COUNT(*) FROM orders WHERE ARRAY_MAX(ARRAY[1, 2]) = 3;
SELECT MIN(qty), COUNT(*) FROM orders WHERE CARDINALITY(MAP['a', 1]) = 3;
SELECT MIN(qty), COUNT(*) FROM orders WHERE SPLIT_INDEX('a,b', ',', 0) = 'x';
SELECT MIN(qty), COUNT(*) FROM orders WHERE CAST(ARRAY[1] AS STRING) = 'x';
SELECT MIN(qty), COUNT(*) FROM orders WHERE MAP_KEYS(MAP['a', 1])[1] = 'x';
SELECT MIN(qty), COUNT(*) FROM orders WHERE STR_TO_MAP('a=1')['a'] = 'x';
SELECT MIN(qty), COUNT(*) FROM orders WHERE SPLIT('a,b', ',')[1] = 'x';
SELECT MIN(qty), COUNT(*) FROM orders WHERE ARRAY['a'] IS NULL;
