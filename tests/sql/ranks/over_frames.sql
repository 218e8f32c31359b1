SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (id BIGINT, src STRING, amount DECIMAL(12, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/risk_transfers.json', 'format' = 'json');
CREATE TABLE r (device STRING, temp DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/iot_readings.json', 'format' = 'json');

-- Frames of many rows that fill one row at a time.
SELECT id, COUNT(*) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS n3, SUM(amount) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s3 FROM t;
-- rowsort
SELECT id, src, MIN(amount) OVER (PARTITION BY src ORDER BY ts ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS lo FROM t;
-- rowsort
SELECT id, src, LAG(id, 4) OVER (PARTITION BY src ORDER BY ts) AS fourth_before FROM t;
-- Rows of one time have the same value before them.
-- rowsort
SELECT device, ts, temp, LAG(temp) OVER (PARTITION BY device ORDER BY ts) AS l1, LAG(temp, 2) OVER (PARTITION BY device ORDER BY ts) AS l2 FROM r;
SELECT device, ts, LAG(device, 1) OVER (ORDER BY ts) AS l1, LAG(device, 5) OVER (ORDER BY ts) AS l5 FROM r;
-- What is NOT NULL in a frame.
SELECT id, MIN(1) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a, SUM(2) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM t WHERE id < 3;
SELECT id, MIN(1) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS a, COUNT(1) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS b FROM t WHERE id < 3;
SELECT id, MAX(1) OVER (ORDER BY ts) AS a, FIRST_VALUE(1) OVER (ORDER BY ts) AS b FROM t WHERE id < 3;
SELECT id, MAX(1) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) AS a, LAST_VALUE(1) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) AS b FROM t WHERE id < 3;
