SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TABLE u (uid INT, name STRING, item STRING, limit_ INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/users.json', 'format' = 'json');
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS a, TUMBLE_END(ts, INTERVAL '10' SECOND) AS b, SUM(v) AS s FROM e GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
-- rowsort
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS a, SUM(v) AS s FROM e GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);
-- rowsort
SELECT k, v, window_start, window_time FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND));
CREATE TABLE p (ts TIMESTAMP(3), k STRING, v INT, pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
-- rowsort
SELECT window_start, SUM(v) AS s FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, SUM(v) AS s FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(pt), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT COUNT(*) AS n FROM p GROUP BY TUMBLE(pt, INTERVAL '5' SECOND);
-- rowsort
SELECT a.k, a.v, b.v FROM e a JOIN p b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts;
CREATE TABLE g (a INT) WITH ('connector' = 'datagen');
SELECT * FROM g;
CREATE TABLE c (id INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_debezium.json', 'format' = 'debezium-json');
SELECT * FROM c;
SELECT CURRENT_WATERMARK(ts) FROM e;
CREATE TABLE items (item STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/items', 'format' = 'json');
INSERT INTO items SELECT item, COUNT(*) FROM o GROUP BY item;
SELECT * FROM items ORDER BY item;
