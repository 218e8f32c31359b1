SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE orders (order_id BIGINT, user_id INT, product STRING, qty INT, price DECIMAL(10, 2), status STRING, tags ARRAY<STRING>, address ROW<city STRING, zip STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shop_orders.json', 'format' = 'json');
CREATE TABLE payments (payment_id BIGINT, order_id BIGINT, pay_type STRING, paid DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shop_payments.json', 'format' = 'json');
CREATE TABLE users (user_id INT, name STRING, level STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/shop_users.json', 'format' = 'json');

-- Revenue of each status.
SELECT status, COUNT(*) AS orders, SUM(qty * price) AS revenue, AVG(price) AS avg_price FROM orders GROUP BY status;
SELECT order_id, CASE WHEN qty * price > 100 THEN 'large' WHEN qty * price > 10 THEN 'medium' WHEN qty IS NULL THEN 'unknown' ELSE 'small' END AS size_class, COALESCE(address.city, 'n/a') AS city FROM orders WHERE status <> 'cancelled';
SELECT order_id, tag FROM orders CROSS JOIN UNNEST(tags) AS t (tag) WHERE tag IS NOT NULL;
SELECT tag, COUNT(*) AS n, SUM(price) AS total FROM orders CROSS JOIN UNNEST(tags) AS t (tag) GROUP BY tag;
-- rowsort
SELECT window_start, window_end, product, SUM(qty) AS sold FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end, product;
-- rowsort
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY revenue DESC, product) AS place FROM (SELECT window_start, window_end, product, SUM(qty * price) AS revenue FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, product)) WHERE place <= 2;
-- materialized
SELECT u.name, COUNT(o.order_id) AS orders, SUM(o.price) AS spent FROM users AS u LEFT JOIN orders AS o ON u.user_id = o.user_id GROUP BY u.name;
-- materialized
SELECT o.order_id, p.pay_type, p.paid, o.qty * o.price - p.paid AS open_amount FROM orders AS o JOIN payments AS p ON o.order_id = p.order_id WHERE o.status IN ('new', 'paid');
-- materialized
SELECT order_id, status FROM orders WHERE order_id NOT IN (SELECT order_id FROM payments WHERE order_id IS NOT NULL);
-- materialized
SELECT name FROM users AS u WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.user_id = u.user_id AND o.status = 'paid');
-- materialized
SELECT o.order_id, p.payment_id FROM orders AS o JOIN payments AS p ON o.order_id = p.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE;
SELECT user_id, order_id, price, SUM(price) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far FROM orders WHERE user_id = 1;
-- rowsort
SELECT user_id, order_id, status FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts DESC) AS n FROM orders) WHERE n = 1;
-- materialized
SELECT product, revenue FROM (SELECT product, SUM(qty * price) AS revenue FROM orders GROUP BY product) WHERE revenue > (SELECT AVG(qty * price) FROM orders);
-- rowsort
SELECT product, status, GROUPING(product) AS gp, GROUPING(status) AS gs, COUNT(*) AS n FROM orders GROUP BY ROLLUP (product, status);
SELECT COUNT(DISTINCT user_id) AS buyers, COUNT(DISTINCT CASE WHEN price > 100 THEN user_id END) AS big_buyers, MAX(CAST(ts AS TIMESTAMP(3))) AS latest FROM orders;
SELECT user_id, LISTAGG(product, ',') AS products, COUNT(*) FILTER (WHERE status = 'cancelled') AS cancelled FROM orders GROUP BY user_id HAVING COUNT(*) > 2;
-- materialized
WITH big AS (SELECT * FROM orders WHERE price > 5), per_user AS (SELECT user_id, COUNT(*) AS n FROM big GROUP BY user_id) SELECT u.name, u.level, p.n FROM per_user AS p JOIN users AS u ON p.user_id = u.user_id WHERE u.level IS NOT NULL;
SELECT DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm') AS minute_text, COUNT(*) AS n FROM orders GROUP BY DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm');
SELECT product, price FROM (SELECT DISTINCT product, price FROM orders) ORDER BY price DESC, product LIMIT 5;
-- rowsort
SELECT window_start, window_end, user_id, COUNT(*) AS n, LISTAGG(product, '>') AS path FROM TABLE(SESSION(TABLE orders PARTITION BY user_id, DESCRIPTOR(ts), INTERVAL '2' MINUTES)) GROUP BY window_start, window_end, user_id;
-- materialized
SELECT o.order_id, u.name, LAST_VALUE(p.pay_type) AS pay_type FROM orders AS o LEFT JOIN users AS u ON o.user_id = u.user_id LEFT JOIN payments AS p ON p.order_id = o.order_id WHERE o.order_id IN (1, 2, 3) GROUP BY o.order_id, u.name;
SELECT UPPER(SUBSTRING(product, 1, 1)) || LOWER(SUBSTRING(product, 2)) AS title, ROUND(price * 1.25, 1) AS gross, CAST(price AS INT) AS whole, MOD(order_id, 4) AS bucket FROM orders WHERE product LIKE '%a%' OR product IS NULL;
