SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE orders (id BIGINT, customer ROW<cid INT, name STRING, address ROW<city STRING, geo ROW<lat DOUBLE, lon DOUBLE>>>, items ARRAY<ROW<sku STRING, qty INT, price DECIMAL(10, 2)>>, attrs MAP<STRING, STRING>, status STRING, ts TIMESTAMP(3), city AS customer.address.city, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/mart_orders.json', 'format' = 'json');

-- The fields of a row as columns; a relation of the name counts more.
SELECT id, o.customer.* FROM orders AS o WHERE id < 3;
SELECT DISTINCT customer.* FROM orders;
SELECT customer.cid, customer.*, name FROM orders WHERE id = 1;
SELECT customer.*, COUNT(*) FROM orders GROUP BY customer.cid, customer.name, customer.address;
SELECT customer.address.geo.*, customer.* FROM orders;
SELECT orders.customer.address.* FROM orders WHERE id = 1;
SELECT r.* FROM (SELECT ROW(id, status) AS r FROM orders WHERE id = 1);
SELECT r.r.* FROM (SELECT ROW(id, status) AS r FROM orders WHERE id = 1) AS r;
SELECT r.* FROM (SELECT CAST(ROW(id, status) AS ROW<a BIGINT, b STRING>) AS r, 1 AS x FROM orders WHERE id = 1) AS r;
SELECT * FROM (SELECT customer.* FROM orders) WHERE name = 'Ann';
CREATE VIEW cv AS SELECT id, customer.* FROM orders;
DESCRIBE cv;
SELECT cid, COUNT(*) FROM cv GROUP BY cid;
SELECT items[1].* FROM orders;
SELECT status.* FROM orders;
SELECT nope.* FROM orders;
SELECT customer.* AS c FROM orders;
SELECT customer.nope.* FROM orders;
SELECT COUNT(customer.*) FROM orders;
-- Numbers as texts.
SELECT DECIMAL '1.50', DECIMAL '-2', DECIMAL '1e2', DECIMAL '.5', DECIMAL '0012.500', DECIMAL '1.50' = 1.5, CAST(DECIMAL '7' AS STRING);
SELECT DECIMAL 'abc';
SELECT ROUND(LOG10(CAST(id + 10 AS DOUBLE)), 12) FROM orders; -- the last digit is that of the processor

-- A hint says how long an aggregate keeps its keys: each row is told of then.
SELECT /*+ STATE_TTL('o' = '1 d') */ id, MAX(1) FROM orders AS o WHERE id = 1 GROUP BY id;
SELECT /*+ STATE_TTL('o' = '1 d') */ id, MAX(1) FROM orders AS o WHERE id = 1 GROUP BY ROLLUP (id) HAVING COUNT(*) > 1;
SELECT /*+ STATE_TTL('nope' = '1 d') */ id FROM orders WHERE id = 1;
SELECT /*+ STATE_TTL('nope' = '1 d') */ id, COUNT(*) FROM orders WHERE id = 1 GROUP BY id;
SELECT /*+ STATE_TTL('orders' = '1 d') */ id, COUNT(*) FROM orders AS o WHERE id = 1 GROUP BY id;

-- Windows of table functions have no early results.
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '0 s';
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE), COUNT(*) FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE);

-- Options of the source that change no result.
SELECT MAX(id) FROM orders /*+ OPTIONS('scan.watermark.emit.strategy' = 'on-event') */;
CREATE TABLE aligned WITH ('scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min', 'scan.watermark.alignment.update-interval' = '1 s', 'scan.watermark.emit.strategy' = 'on-periodic') LIKE orders;
SELECT COUNT(*) FROM aligned WHERE id = 3;
SELECT COUNT(*) FROM orders /*+ OPTIONS('scan.watermark.emit.strategy' = 'never') */;
