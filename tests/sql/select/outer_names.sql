-- a table of the query around a subquery counts more than a column of its own that is called the same
CREATE TABLE n (id INT, tags ARRAY<STRING>, m MAP<STRING, INT>, r ROW<p INT, q STRING>)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/nested.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
-- materialized
SELECT price.id, x.c FROM n price, LATERAL (SELECT COUNT(*) AS c FROM o WHERE o.id >= price.id) AS x;
-- materialized
SELECT r.id, r.item, (SELECT MAX(id) FROM n WHERE id <= r.id) AS m FROM o r;
-- materialized
SELECT r.id FROM o r WHERE EXISTS (SELECT 1 FROM n WHERE r.amount > n.id AND n.r.p = 1);
-- materialized
SELECT r.id FROM n AS r WHERE r.id IN (SELECT id FROM n WHERE r.r.q = 'one');
-- materialized
SELECT id FROM n WHERE EXISTS (SELECT 1 FROM o WHERE o.id = n.r.p);
-- materialized
SELECT r.p AS p, (SELECT MAX(r.q) FROM n) AS q FROM n WHERE r.p = 1;
