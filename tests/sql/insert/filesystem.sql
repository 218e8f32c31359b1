CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

CREATE TABLE out_json (id INT, a BIGINT, s STRING, m DECIMAL(12, 3), ts TIMESTAMP(3), dt DATE, bo BOOLEAN, d DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/json', 'format' = 'json');
INSERT INTO out_json SELECT id, a, s, m, ts, dt, bo, d FROM t;
SELECT * FROM out_json;
CREATE TABLE out_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/json', 'format' = 'raw');
SELECT * FROM out_text;
CREATE TABLE out_csv (id INT, s STRING, m DECIMAL(10, 2), ts TIMESTAMP(3), bo BOOLEAN, f FLOAT)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/csv', 'format' = 'csv');
INSERT INTO out_csv SELECT id, s, m, ts, bo, f FROM t;
SELECT * FROM out_csv;
CREATE TABLE csv_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/csv', 'format' = 'raw');
SELECT * FROM csv_text;
CREATE TABLE out_raw (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/raw', 'format' = 'raw');
INSERT INTO out_raw SELECT s FROM t WHERE s IS NOT NULL AND s <> '';
SELECT * FROM out_raw;
INSERT INTO out_json (id, s) VALUES (1000, 'one more');
-- rowsort
SELECT * FROM out_json;
INSERT INTO out_json VALUES (1, 2, 'three', 4, TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-01', TRUE, 1.5);
-- rowsort
SELECT id, m, d FROM out_json;
