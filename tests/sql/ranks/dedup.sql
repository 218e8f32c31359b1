SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, dc DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE z (id INT, g STRING, lz TIMESTAMP_LTZ(3), WATERMARK FOR lz AS lz)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE sk (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3), pt AS PROCTIME(), PRIMARY KEY (sku) NOT ENFORCED, WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
SELECT g, id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts) AS n FROM r) WHERE n = 1;
SELECT g, id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n = 1;
SELECT g, id, ts, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts ASC) AS n FROM r) WHERE n <= 1;
SELECT g, id, ts, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n < 2;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts DESC) AS n FROM r) WHERE n = 1;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts) AS n FROM r) WHERE n = 1;
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY pt) AS n FROM r) WHERE n = 1;
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY pt DESC) AS n FROM r) WHERE n = 1;
SELECT id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY pt DESC) AS n FROM r) WHERE n = 1;
SELECT g, b, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g, b ORDER BY pt) AS n FROM r) WHERE n = 1 AND i > 2;
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY PROCTIME()) AS n FROM r) WHERE n = 1;
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY PROCTIME() DESC) AS n FROM r WHERE id < 12) WHERE n = 1;
-- differs: Flink takes the first row of an order for one that never changes, and its result keeps rows that another has replaced
SELECT g, id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC, id) AS n FROM r) WHERE n = 1;
SELECT g, id, ts, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts, id DESC) AS n FROM r) WHERE n <= 2;
SELECT g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY pt) AS n FROM r) WHERE n <= 2;
SELECT g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts) AS n FROM r) WHERE n = 2;
SELECT g, id, n FROM (SELECT *, RANK() OVER (PARTITION BY g ORDER BY ts) AS n FROM r) WHERE n = 1;
SELECT g, id, n FROM (SELECT *, RANK() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n <= 2;
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC NULLS LAST) AS n FROM r) WHERE n = 1;
SELECT g, id, lz FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY lz) AS n FROM z) WHERE n = 1;
SELECT g, id, lz FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY lz DESC) AS n FROM z) WHERE n = 1;
SELECT g, id FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts) = 1;
SELECT g, id FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY pt DESC) = 1;
-- What follows deduplication.
SELECT COUNT(*) AS c, SUM(i) AS s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n = 1;
SELECT b, COUNT(*) AS c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts) AS n FROM r) WHERE n = 1 GROUP BY b;
SELECT window_start, COUNT(*) AS c, SUM(i) AS s FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
CREATE VIEW firsts AS SELECT id, g, i, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g, i ORDER BY ts) AS n FROM r) WHERE n = 1;
SELECT window_start, COUNT(*) AS c, SUM(i) AS s FROM TABLE(TUMBLE(TABLE firsts, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT id, g, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS m FROM firsts) WHERE m = 1;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS w, COUNT(*) AS c FROM firsts GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
CREATE VIEW lasts AS SELECT id, g, i, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n = 1;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS w, COUNT(*) AS c FROM lasts GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE lasts, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT i, COUNT(*) AS c FROM lasts GROUP BY i;
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY i DESC, id) AS m FROM lasts) WHERE m <= 2;
-- Over changes.
SELECT shop, sku, `at` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY `at` DESC) AS n FROM sk) WHERE n = 1;
SELECT shop, sku, `at` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY `at`) AS n FROM sk) WHERE n = 1;
-- Window deduplication and Top-N.
-- rowsort
SELECT window_start, g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, g ORDER BY ts DESC) AS n FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND))) WHERE n = 1;
SELECT window_start, g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY i DESC, id) AS n FROM TABLE(HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE n <= 2;
SELECT window_end, g, s, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, g) AS n FROM (SELECT window_start, window_end, g, SUM(i) AS s FROM TABLE(CUMULATE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, g)) WHERE n BETWEEN 2 AND 3;
-- what comes when the watermark is at its time goes out behind that
CREATE TABLE at_once (id INT, g STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
SELECT id, g, ts, CURRENT_WATERMARK(ts) AS w FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS n FROM at_once) WHERE n = 1;
SELECT id, COUNT(*) OVER (PARTITION BY g ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS n FROM at_once) WHERE n = 1;
