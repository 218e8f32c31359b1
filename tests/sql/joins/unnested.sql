-- UNNEST and LATERAL over values and rows with NULLs.
CREATE TABLE nested (id INT, xs ARRAY<INT>, ss ARRAY<STRING>, rs ARRAY<ROW<n STRING, c INT>>, m MAP<STRING, INT>, aa ARRAY<ARRAY<INT>>, r ROW<a INT, l ARRAY<STRING>>) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_nested.json');
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_items.json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_parts.json');
CREATE TABLE stock (id INT, k INT, g STRING, q INT) WITH ('connector' = 'filesystem', 'format' = 'debezium-json', 'path' = '${DATA}/j_stock.json');

-- materialized
SELECT id, x FROM nested CROSS JOIN UNNEST(xs) AS t (x);
-- materialized
SELECT id, x FROM nested LEFT JOIN UNNEST(xs) AS t (x) ON TRUE;
-- materialized
SELECT id, x FROM nested, UNNEST(xs) AS t (x) WHERE x > 1;
-- materialized
SELECT id, x FROM nested CROSS JOIN UNNEST(ss) WITH ORDINALITY AS t (x, n);
-- materialized
SELECT id, x, n FROM nested LEFT JOIN UNNEST(ss) WITH ORDINALITY AS t (x, n) ON TRUE;
-- materialized
SELECT id, n, c FROM nested CROSS JOIN UNNEST(rs) AS t (n, c);
-- materialized
SELECT id, t.* FROM nested LEFT JOIN UNNEST(rs) AS t ON TRUE;
-- materialized
SELECT id, k, v FROM nested CROSS JOIN UNNEST(m) AS t (k, v);
-- materialized
SELECT id, k, v FROM nested LEFT JOIN UNNEST(m) AS t (k, v) ON TRUE;
-- materialized
SELECT id, x, i, j FROM nested CROSS JOIN UNNEST(aa) WITH ORDINALITY AS t (a, i) LEFT JOIN UNNEST(t.a) WITH ORDINALITY AS u (x, j) ON TRUE;
-- materialized
SELECT x, COUNT(*) AS c FROM nested CROSS JOIN UNNEST(xs) AS t (x) GROUP BY x;
-- materialized
SELECT id, SUM(x) AS s, COUNT(x) AS c FROM nested LEFT JOIN UNNEST(xs) AS t (x) ON TRUE GROUP BY id;
-- materialized
SELECT t.x, p.name FROM nested CROSS JOIN UNNEST(xs) AS t (x) LEFT JOIN parts p ON p.k = t.x;
-- materialized
SELECT i.id, x FROM items i CROSS JOIN UNNEST(ARRAY[i.k, i.v]) AS t (x) WHERE i.b;
SELECT i.id, k, v FROM items i CROSS JOIN UNNEST(MAP['k', i.k, 'v', i.v]) AS t (k, v);
SELECT i.id, a, b FROM items i CROSS JOIN UNNEST(ARRAY[ROW(i.k, i.g), ROW(i.v, 'x')]) AS t (a, b);
-- materialized
SELECT g, x FROM (SELECT g, COLLECT(v) AS c FROM items GROUP BY g) t CROSS JOIN UNNEST(c) AS u (x);
-- materialized
SELECT g, x FROM (SELECT g, ARRAY_AGG(v) AS c FROM items GROUP BY g) t CROSS JOIN UNNEST(c) AS u (x);
-- materialized
SELECT g, x, n FROM (SELECT g, ARRAY_AGG(q) AS c FROM stock GROUP BY g) t CROSS JOIN UNNEST(c) WITH ORDINALITY AS u (x, n);
-- materialized
SELECT s.id, x FROM stock s CROSS JOIN UNNEST(ARRAY[s.q, s.q + 1]) AS t (x);
-- materialized
SELECT s.id, x FROM stock s LEFT JOIN UNNEST(SPLIT(s.g, ',')) AS t (x) ON TRUE;
-- materialized
SELECT id, w FROM items CROSS JOIN UNNEST(SPLIT(g || ',q', ',')) AS t (w);
-- materialized
SELECT * FROM UNNEST(ARRAY['a', 'b']) AS t (x);
-- materialized
SELECT * FROM UNNEST(MAP['a', 1, 'b', 2]) AS t (k, v);
-- materialized
SELECT * FROM UNNEST(ARRAY[1, 2]) WITH ORDINALITY;
-- materialized
SELECT * FROM UNNEST(ARRAY[1, 2]) WITH ORDINALITY AS t (x, n) CROSS JOIN (VALUES (5)) AS v (y);
-- materialized
SELECT a.x, b.y FROM UNNEST(ARRAY[1, 2, 3]) AS a (x) JOIN UNNEST(ARRAY[2, 3, 4]) AS b (y) ON a.x = b.y;
-- materialized
SELECT id, x FROM nested CROSS JOIN UNNEST(xs) AS t (x) WHERE x IN (SELECT k FROM parts);
-- materialized
SELECT id, x FROM nested JOIN UNNEST(xs) AS t (x) ON t.x = 2;
SELECT id, x FROM nested RIGHT JOIN UNNEST(xs) AS t (x) ON TRUE;
-- materialized
SELECT i.id, s.name FROM items i, LATERAL (SELECT name FROM parts p WHERE p.k = i.k) AS s;
-- materialized
SELECT i.id, s.name FROM items i LEFT JOIN LATERAL (SELECT name FROM parts p WHERE p.k = i.k AND p.w > i.v) AS s ON TRUE;
-- materialized
SELECT i.id, s.c, s.m FROM items i CROSS JOIN LATERAL (SELECT COUNT(*) AS c, MAX(w) AS m FROM parts p WHERE p.k = i.k) AS s;
-- materialized
SELECT i.id, s.c, s.m FROM items i LEFT JOIN LATERAL (SELECT COUNT(*) AS c, MAX(w) AS m FROM parts p WHERE p.k = i.k) AS s ON TRUE;
-- materialized
SELECT i.id, s.g, s.m FROM items i CROSS JOIN LATERAL (SELECT g, MAX(w) AS m FROM parts p WHERE p.k = i.k GROUP BY g) AS s;
-- materialized
SELECT i.id, s.pid FROM items i JOIN LATERAL (SELECT pid FROM parts p WHERE p.k = i.k) AS s ON s.pid > 1;
-- materialized
SELECT i.id, s.pid FROM items i LEFT JOIN LATERAL (SELECT pid, w FROM parts p WHERE p.k = i.k) AS s ON s.w > 10;
