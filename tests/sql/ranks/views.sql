SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, l BIGINT, dc DECIMAL(10, 2), d DOUBLE, f FLOAT, s STRING, dt DATE, tm TIME, ts TIMESTAMP(3), lz TIMESTAMP_LTZ(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE ca (id INT, host STRING, load DECIMAL(10, 2)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_canal.json', 'format' = 'canal-json');
CREATE TABLE mx (id INT, host STRING, load DECIMAL(10, 2)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_maxwell.json', 'format' = 'maxwell-json');
CREATE TABLE og (id INT, host STRING, load DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_ogg.json', 'format' = 'ogg-json');
CREATE TABLE st (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
SELECT * FROM og;
SELECT id, host FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY load DESC, id) AS n FROM ca) WHERE n <= 2;
SELECT id, host, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY load) AS n FROM mx) WHERE n <= 1;
SELECT id, load, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY load DESC) AS n FROM og) WHERE n <= 2;
SELECT host, MAX(load) AS m, COUNT(*) AS c FROM og GROUP BY host;
SELECT host, c FROM (SELECT host, COUNT(*) AS c FROM ca GROUP BY host) ORDER BY c DESC, host LIMIT 1;
-- materialized
SELECT ca.id, og.host FROM ca JOIN og ON ca.id = og.id;
SELECT k, n FROM (SELECT g AS k, COUNT(*) AS n FROM r GROUP BY g) WHERE n > 2;
SELECT g, s, n FROM (SELECT g, s, ROW_NUMBER() OVER (PARTITION BY g ORDER BY COUNT(*) DESC, s) AS n FROM r GROUP BY g, s) WHERE n <= 2;
SELECT g, i, RANK() OVER (PARTITION BY g ORDER BY i) AS n FROM r QUALIFY n <= 2;
SELECT g, id FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY i DESC, id) <= 2 AND i > 4;
SELECT g, id FROM r QUALIFY ROW_NUMBER() OVER w <= 1 WINDOW w AS (PARTITION BY g ORDER BY id DESC);
SELECT g, id, n FROM (SELECT g, id, ROW_NUMBER() OVER w AS n FROM r WINDOW w AS (PARTITION BY g ORDER BY id DESC)) WHERE n <= 2;
SELECT x.g, x.id FROM (SELECT g, id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id DESC) AS rn FROM r) AS x WHERE x.rn <= 2 AND x.id > 3;
WITH ranked AS (SELECT g, id, i, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i DESC) AS rn FROM r), top AS (SELECT * FROM ranked WHERE rn <= 2) SELECT g, SUM(i) AS s FROM top GROUP BY g;
CREATE VIEW v1 AS SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id DESC) AS rn FROM r;
SELECT g, id FROM v1 WHERE rn = 1;
SELECT g, id, rn FROM v1 WHERE rn <= 2 ;
SELECT g, COUNT(*) AS c FROM v1 WHERE rn <= 3 GROUP BY g;
SELECT id, rn * 10 AS x, CAST(rn AS STRING) AS y FROM v1 WHERE rn <= 2;
SELECT id, CASE rn WHEN 1 THEN 'first' ELSE 'other' END AS w FROM v1 WHERE rn <= 2;
SELECT DISTINCT g FROM v1 WHERE rn <= 2;
-- materialized
SELECT g, id FROM v1 WHERE rn = 1 UNION ALL SELECT g, id FROM v1 WHERE rn = 1 AND g = 'a';
SELECT g, id FROM v1 WHERE rn <= 2 AND rn >= 1 AND g IN ('a', 'b');
SELECT g, id FROM v1 WHERE rn = 1 AND NOT b;
SELECT g, id FROM v1 WHERE NOT rn > 2;
SELECT g, id FROM v1 WHERE rn BETWEEN 3 AND 2;
SELECT g, id FROM v1 WHERE rn = 3;
SELECT g, id, rn FROM v1 WHERE rn > 1 AND rn <= 3;
SELECT g, MIN(id) AS lo, MAX(rn) AS mr FROM v1 WHERE rn <= 2 GROUP BY g HAVING COUNT(*) = 2;
SELECT id, dt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY YEAR(dt) ORDER BY dt DESC, id) AS n FROM r) WHERE n <= 2;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r WHERE i IS NOT NULL) WHERE n = 1;
-- rowsort
SELECT id, ts FROM (SELECT id, ts, ROW_NUMBER() OVER (PARTITION BY g, b ORDER BY ts ASC) AS n FROM r) WHERE n = 1;
SELECT id, d2 FROM (SELECT id, g, ts, d * 2 AS d2, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n = 1;
-- rowsort
SELECT window_start, g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, g ORDER BY i DESC NULLS LAST, id) AS n FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 2;
SELECT window_end, g, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY c DESC, g) AS n FROM (SELECT window_start, window_end, g, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, g)) WHERE n = 1;
SELECT id, i, SUM(i) OVER (ORDER BY i) AS s FROM r WHERE i IS NOT NULL;
SELECT g, id, SUM(i) OVER (PARTITION BY g ORDER BY id DESC) AS s FROM r;
SELECT g, i, COUNT(*) OVER (PARTITION BY g ORDER BY i) AS c, MIN(id) OVER (PARTITION BY g ORDER BY i) AS m FROM r;
SELECT g, c, SUM(c) OVER (ORDER BY g) AS run FROM (SELECT g, COUNT(*) AS c FROM r GROUP BY g);
SELECT sku, SUM(qty) OVER (PARTITION BY shop ORDER BY price) AS s FROM st;
SELECT id FROM r ORDER BY i DESC, s, id LIMIT 5;
SELECT id, s FROM r ORDER BY s DESC NULLS LAST LIMIT 4;
SELECT g, AVG(i) AS a FROM r GROUP BY g ORDER BY a DESC LIMIT 2;
SELECT g, COUNT(DISTINCT i) AS c, MAX(ts) AS m FROM r GROUP BY g ORDER BY m DESC, g LIMIT 2;
SELECT shop, SUM(qty) AS q FROM st GROUP BY shop ORDER BY q DESC NULLS LAST LIMIT 2;
