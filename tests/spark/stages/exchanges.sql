SET 'execution.target' = 'spark';
CREATE TABLE orders (id INT, item STRING, amount INT) WITH ('connector' = 'topic', 'topic' = 'orders', 'format' = 'json');
CREATE TABLE returned (id INT, item STRING) WITH ('connector' = 'topic', 'topic' = 'returned', 'format' = 'json');
CREATE TABLE report (n BIGINT PRIMARY KEY NOT ENFORCED, items BIGINT, total INT) WITH ('connector' = 'print');
CREATE TABLE counts (item STRING PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE total (n BIGINT) WITH ('connector' = 'print');
-- An exchange in front of each operation that needs the rows of a key together.
EXPLAIN INSERT INTO report SELECT n, COUNT(*), SUM(total)
FROM (SELECT item, COUNT(*) AS n FROM returned GROUP BY item) AS r
JOIN (SELECT item, SUM(amount) AS total FROM orders GROUP BY item) AS o ON r.item = o.item GROUP BY n;
-- Rows without an exchange that meet others behind one stay where they are.
EXPLAIN INSERT INTO total SELECT n FROM (SELECT COUNT(*) AS n FROM orders GROUP BY item) UNION ALL SELECT CAST(id AS BIGINT) FROM returned;
-- No key: all rows in one partition.
EXPLAIN INSERT INTO total SELECT COUNT(*) FROM orders;
-- Two statements share what they read and count; the second one counts the counts.
EXPLAIN STATEMENT SET BEGIN
INSERT INTO counts SELECT item, COUNT(*) FROM orders GROUP BY item;
INSERT INTO total SELECT SUM(n) FROM (SELECT item, COUNT(*) AS n FROM orders GROUP BY item);
END;
