-- The condition on the number of a row stands above a join, or in its ON.
CREATE TABLE clk (id INT, usr STRING, sess STRING, price DECIMAL(10, 2), q INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked_clicks.json', 'format' = 'json');
CREATE TABLE fx (ccy STRING, rate DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked_rates.json', 'format' = 'json');
CREATE VIEW t AS SELECT id, usr, sess, ROW_NUMBER() OVER (PARTITION BY sess ORDER BY price DESC) AS rn FROM clk;
CREATE VIEW up AS SELECT id, sess, ROW_NUMBER() OVER (PARTITION BY sess ORDER BY q, id) AS rn FROM clk;
-- materialized
SELECT t.id, t.rn, f.rate FROM t LEFT JOIN fx f ON t.sess = f.ccy WHERE t.rn <= 2;
-- materialized
SELECT t.id, t.rn, f.rate FROM t JOIN fx f ON t.sess = f.ccy AND t.rn < f.rate WHERE t.rn <= 2 AND t.id > 0;
-- materialized
SELECT t.id, t.rn, f.rate FROM t LEFT JOIN fx f ON t.sess = f.ccy AND t.rn < f.rate WHERE t.rn <= 2;
-- materialized
SELECT t.id, t.rn, f.rate FROM t JOIN fx f ON t.sess = f.ccy AND t.rn <= 2;
-- materialized
SELECT t.id, t.rn, f.rate FROM fx f LEFT JOIN t ON t.sess = f.ccy AND t.rn <= 2;
-- materialized
SELECT t.id, t.rn, f.rate FROM fx f RIGHT JOIN t ON t.sess = f.ccy WHERE t.rn BETWEEN 1 AND 2;
-- materialized
SELECT a.id, b.id AS other, a.rn FROM t a JOIN t b ON a.sess = b.sess AND a.id <> b.id WHERE a.rn <= 2 AND b.rn <= 2;
-- materialized
SELECT a.id, b.rate FROM up a JOIN fx b ON a.sess = b.ccy WHERE a.rn <= 2;
-- materialized
SELECT a.usr, COUNT(*) AS n, MAX(b.rate) AS m FROM t a, fx b WHERE a.sess = b.ccy AND a.rn <= 2 GROUP BY a.usr;
SELECT id FROM (SELECT id, rn FROM t UNION ALL SELECT id, CAST(1 AS BIGINT) FROM clk WHERE id < 0) WHERE rn <= 2;
-- materialized
SELECT t.id, u.v FROM t, UNNEST(ARRAY[1, 2]) AS u (v) WHERE t.rn <= 2;
