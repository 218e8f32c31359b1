SET 'pipeline.auto-watermark-interval' = '0';
-- What nobody reads behind UNION ALL goes out of each branch, and so do the updates that it makes; OVER, which drops late rows, stays.
CREATE TABLE h (id INT, v INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
CREATE VIEW g AS SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(id) AS m FROM h GROUP BY k;
CREATE VIEW o AS SELECT id, k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM h;
-- rowsort
SELECT k FROM (SELECT k, n FROM g UNION ALL SELECT k, v FROM h);
-- rowsort
SELECT q FROM (SELECT k AS q, n, m FROM g UNION ALL SELECT k, v, id FROM h UNION ALL SELECT k, s, n FROM g);
-- rowsort
SELECT m FROM (SELECT k, m FROM g UNION ALL SELECT k, v FROM h) WHERE k <> 'a';
-- materialized
SELECT k, SUM(x) AS s FROM (SELECT k, n AS x, s AS y FROM g UNION ALL SELECT k, CAST(v AS BIGINT), id FROM h) GROUP BY k;
-- materialized
SELECT COUNT(*) AS n FROM (SELECT k, n FROM g UNION ALL SELECT k, v FROM h);
-- rowsort
SELECT id FROM (SELECT id, rn FROM o UNION ALL SELECT id, v FROM h WHERE v > 3);
-- rowsort
SELECT rn FROM (SELECT id, rn FROM o UNION ALL SELECT id, v FROM h WHERE v > 3);
-- materialized
SELECT k FROM (SELECT k, n FROM g UNION SELECT k, v FROM h);
