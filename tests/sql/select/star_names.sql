CREATE TABLE l (k INT, a STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/l', 'format' = 'json');
CREATE TABLE r (k INT NOT NULL, b STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/r', 'format' = 'json');
CREATE TABLE n (k INT, c STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/n', 'format' = 'json');
INSERT INTO l VALUES (1, 'x'), (2, 'y');
INSERT INTO r VALUES (1, 'p'), (3, 'q');
INSERT INTO n VALUES (1, 's');

-- Columns that come from a * have names of their own, and may be called so.
SELECT * FROM (SELECT l.*, r.* FROM l JOIN r ON l.k = r.k);
SELECT k, k0 FROM (SELECT l.*, r.* FROM l JOIN r ON l.k = r.k);
SELECT k, k0, k1, b FROM (SELECT * FROM l JOIN r ON l.k = r.k JOIN n ON n.k = l.k);
CREATE VIEW v2 AS SELECT * FROM l JOIN n ON l.k = n.k;
DESCRIBE v2;
SELECT k0 FROM v2;
WITH w AS (SELECT * FROM l JOIN n ON l.k = n.k) SELECT k0, c FROM w;
SELECT MAX(k), MAX(k0) FROM (SELECT * FROM l JOIN n ON l.k = n.k);
SELECT l.k, l.* FROM l WHERE k = 1;
SELECT k0 FROM (SELECT l.k, l.* FROM l WHERE k = 1);
SELECT l.*, l.k FROM l WHERE k = 1;
SELECT k0 FROM (SELECT l.*, l.k FROM l WHERE k = 1);
-- What the text names twice is ambiguous.
SELECT * FROM (SELECT 1 AS a, 2 AS a);
SELECT t.* FROM (SELECT 1 AS a, 2 AS a) AS t;
SELECT t.a FROM (SELECT 1 AS a, 2 AS a) AS t;
SELECT t.b FROM (SELECT 1 AS a, 2 AS a, 3 AS b) AS t;
SELECT COUNT(*) FROM (SELECT 1 AS a, 2 AS a) AS t;
WITH w AS (SELECT l.k, r.k FROM l JOIN r ON l.k = r.k) SELECT * FROM w;
WITH w (k1, k2) AS (SELECT l.k, r.k FROM l JOIN r ON l.k = r.k) SELECT * FROM w;
INSERT INTO n SELECT * FROM (SELECT 1 AS x, 'a' AS x);
SELECT * FROM (SELECT 1 AS a), (SELECT 2 AS a);

-- A shared column is NOT NULL where one of both is.
SELECT k, a, b FROM l JOIN r USING (k);
SELECT k, a, b FROM r JOIN l USING (k);
-- materialized
SELECT k, a, b FROM l LEFT JOIN r USING (k);
-- materialized
SELECT k, a, b FROM l RIGHT JOIN r USING (k);
SELECT k, a, b, c FROM l JOIN r USING (k) JOIN n USING (k);
