SET 'pipeline.auto-watermark-interval' = '0';
SET 'table.exec.mini-batch.enabled' = 'false';
CREATE TABLE st (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
CREATE TABLE sk (sku INT, shop STRING, qty INT, price DECIMAL(6, 2), `at` TIMESTAMP(3), PRIMARY KEY (sku) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/stock_changes.json', 'format' = 'debezium-json');
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, l BIGINT, dc DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
-- What tables take changes.
CREATE TABLE plain (g STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/plain', 'format' = 'json');
INSERT INTO plain SELECT g, COUNT(*) FROM r GROUP BY g;
INSERT INTO plain SELECT g, l FROM r ORDER BY l DESC LIMIT 2;
INSERT INTO plain SELECT g, l FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts) AS n FROM r) WHERE n = 1;
INSERT INTO plain SELECT g, l FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r) WHERE n = 1;
INSERT INTO plain SELECT shop, CAST(qty AS BIGINT) FROM st;
CREATE TABLE plain_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/plain', 'format' = 'raw');
-- rowsort
SELECT * FROM plain_text;
-- What is told in each form: changes are read again as text.
CREATE TABLE d1 (g STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d1', 'format' = 'debezium-json');
CREATE TABLE d1_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d1', 'format' = 'raw');
INSERT INTO d1 SELECT g, COUNT(*) FROM r GROUP BY g;
SELECT * FROM d1_text;
SELECT * FROM d1;
SELECT SUM(n) AS s FROM d1;
CREATE TABLE d2 (g STRING, id INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d2', 'format' = 'canal-json');
CREATE TABLE d2_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d2', 'format' = 'raw');
INSERT INTO d2 SELECT g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i DESC, id) AS n FROM r) WHERE n <= 2;
SELECT * FROM d2_text;
SELECT * FROM d2;
CREATE TABLE d3 (g STRING, id INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d3', 'format' = 'maxwell-json');
CREATE TABLE d3_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d3', 'format' = 'raw');
INSERT INTO d3 SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC) AS n FROM r WHERE g IS NOT NULL) WHERE n = 1;
SELECT * FROM d3_text;
SELECT * FROM d3;
CREATE TABLE d4 (sku INT, qty INT, PRIMARY KEY (sku) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d4', 'format' = 'ogg-json');
CREATE TABLE d4_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d4', 'format' = 'raw');
INSERT INTO d4 SELECT sku, qty FROM sk;
SELECT * FROM d4_text;
INSERT INTO d4 SELECT sku, qty FROM st;
INSERT INTO d4 SELECT sku, qty FROM st ON CONFLICT DO DEDUPLICATE;
SELECT COUNT(*) AS c FROM d4_text;
CREATE TABLE d5 (shop STRING, c BIGINT, PRIMARY KEY (shop) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d5', 'format' = 'debezium-json');
CREATE TABLE d5_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d5', 'format' = 'raw');
INSERT INTO d5 SELECT COALESCE(shop, '?'), COUNT(*) FROM st GROUP BY COALESCE(shop, '?');
SELECT * FROM d5_text;
INSERT INTO d5 SELECT shop, COUNT(*) FROM st GROUP BY shop HAVING shop IS NOT NULL;
INSERT INTO d5 SELECT shop, COUNT(*) FROM st GROUP BY shop;
INSERT INTO d5 SELECT s, l FROM r WHERE s IS NOT NULL ON CONFLICT DO NOTHING;
INSERT INTO d5 SELECT s, l FROM r WHERE s IS NOT NULL ON CONFLICT DO ERROR;
INSERT INTO d5 SELECT CAST(id AS STRING), l FROM r ON CONFLICT DO ERROR;
-- NULL where none may stand.
CREATE TABLE whole (id INT NOT NULL, s STRING NOT NULL) WITH ('connector' = 'filesystem', 'path' = '${OUT}/whole', 'format' = 'json');
CREATE TABLE whole_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/whole', 'format' = 'raw');
CREATE TABLE strict (id INT NOT NULL, s STRING NOT NULL) WITH ('connector' = 'filesystem', 'path' = '${OUT}/strict', 'format' = 'json');
INSERT INTO strict SELECT id, s FROM r;
INSERT INTO whole SELECT id, s FROM r WHERE s IS NOT NULL AND id > 12;
SET 'table.exec.sink.not-null-enforcer' = 'DROP';
INSERT INTO whole SELECT id, s FROM r WHERE id < 5;
-- rowsort
SELECT * FROM whole_text;
CREATE TABLE d6 (g STRING NOT NULL, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d6', 'format' = 'debezium-json');
INSERT INTO d6 SELECT g, COUNT(*) FROM r GROUP BY g;
SELECT * FROM d6;
SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';
CREATE TABLE d7 (g CHAR(2), s VARCHAR(1), n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/d7', 'format' = 'debezium-json');
INSERT INTO d7 SELECT g, s, COUNT(*) FROM r GROUP BY g, s;
SELECT * FROM d7;
-- Print takes whatever comes, blackhole too.
CREATE TABLE pr (g STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO pr SELECT g, COUNT(*) FROM r GROUP BY g;
INSERT INTO pr SELECT shop, CAST(qty AS BIGINT) FROM sk;
CREATE TABLE prk (g STRING, n BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector' = 'print');
INSERT INTO prk SELECT g, l FROM r;
INSERT INTO prk SELECT g, l FROM r ON CONFLICT DO DEDUPLICATE;
INSERT INTO prk SELECT g, MAX(l) FROM r WHERE g IS NOT NULL GROUP BY g;
CREATE TABLE bh (g STRING, id INT, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO bh SELECT g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i DESC) AS n FROM r) WHERE n <= 2;
INSERT INTO bh (g) SELECT shop FROM st;
