-- LEFT JOIN LATERAL of a query that only counts: 0 where there is nothing to count.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_items.json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_parts.json');
-- materialized
SELECT i.id, s.n FROM items i LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM parts p WHERE p.k = i.k) AS s ON TRUE;
-- materialized
SELECT i.id, s.n FROM items i LEFT JOIN LATERAL (SELECT COUNT(DISTINCT w) + 1 FROM parts p WHERE p.k = i.k AND p.w > 1) AS s (n) ON TRUE;
-- materialized
SELECT i.id, s.n FROM items i LEFT JOIN LATERAL (SELECT COUNT(w) FILTER (WHERE w > i.v) AS n FROM parts p WHERE p.k = i.k) AS s ON TRUE WHERE i.id > 1;
-- materialized
SELECT i.id, s.n FROM items i LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM parts p WHERE p.w > i.v) AS s ON TRUE;
-- materialized
SELECT i.id, s.n FROM items i LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM parts p WHERE p.k = i.k) AS s ON s.n > 1;
-- materialized
SELECT i.id, s.n, s.m FROM items i LEFT JOIN LATERAL (SELECT COUNT(*) AS n, COUNT(w) AS m FROM parts p WHERE p.k = i.k) AS s ON TRUE;
-- materialized
SELECT i.id, s.n FROM items i LEFT JOIN LATERAL (SELECT MAX(w) AS n FROM parts p WHERE p.k = i.k) AS s ON TRUE;
