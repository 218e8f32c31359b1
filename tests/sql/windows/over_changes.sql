SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE h (
  id INT, ts TIMESTAMP(3), tl TIMESTAMP_LTZ(3), k STRING, v INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), t TINYINT, s SMALLINT, ok BOOLEAN,
  `day` DATE, tm TIME, `by` BYTES, a ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>, t9 TIMESTAMP(9), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
CREATE TABLE x (id INT, ts TIMESTAMP(3), k STRING, d DOUBLE, f FLOAT, m DECIMAL(8, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/fractions.json', 'format' = 'json');
CREATE VIEW latest AS SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM h) WHERE rn = 1;
CREATE VIEW firsts AS SELECT id, k, v, ts, ok FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, ok ORDER BY ts) AS rn FROM h) WHERE rn = 1;
-- materialized
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE firsts, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- materialized
SELECT window_start, COUNT(*) AS n, MAX(v) AS s FROM TABLE(HOP(TABLE firsts, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT ok, COUNT(*) AS n, MAX(v) AS m FROM latest GROUP BY ok;
SELECT COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a, MIN(k) AS mk FROM firsts;
SELECT k, SUM(v) AS s, COUNT(DISTINCT ok) AS o, FIRST_VALUE(id) AS f, LAST_VALUE(id) AS l FROM firsts GROUP BY k;
-- materialized
SELECT a.window_start, a.k, a.n, b.s FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k) AS a JOIN (SELECT window_start, window_end, k, SUM(v) AS s FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '20' SECOND)) WHERE ok GROUP BY window_start, window_end, k) AS b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- materialized
SELECT a.window_start, a.k, a.n, b.s FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k) AS a LEFT JOIN (SELECT window_start, window_end, k, SUM(v) AS s FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '20' SECOND)) WHERE ok GROUP BY window_start, window_end, k) AS b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
SELECT /*+ STATE_TTL('h' = '1d') */ k, COUNT(*) AS n FROM h GROUP BY k;
SELECT k, SUM(NULLIF(v, 2)) AS s, COUNT(NULLIF(ok, FALSE)) AS c FROM h GROUP BY k;
SELECT COALESCE(SUM(v), 0) AS s, COALESCE(MAX(k), 'none') AS m FROM h WHERE ok IS NULL;
SELECT EXTRACT(MINUTE FROM ts) AS m, COUNT(*) AS n, SUM(v) FILTER (WHERE k = 'a') AS sa, SUM(v) FILTER (WHERE k = 'b') AS sb FROM h GROUP BY EXTRACT(MINUTE FROM ts);
SELECT k, MAX(CASE WHEN ok THEN v END) AS t, MIN(CASE WHEN NOT ok THEN v END) AS f, SUM(IF(ok, 1, 0)) AS c FROM h GROUP BY k;
-- rowsort
SELECT k, COUNT(*) AS n FROM h GROUP BY k UNION ALL SELECT 'total', COUNT(*) FROM h;
SELECT d, f, COUNT(*) AS n FROM x GROUP BY d, f;
SELECT CAST(d AS INT) AS b, AVG(d) AS a, MIN(f) AS f, MAX(m) AS m FROM x GROUP BY CAST(d AS INT);
SELECT ROUND(AVG(d), 1) AS a, CAST(SUM(m) AS INT) AS s FROM x;
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '0 ms';
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n, SUM(v) AS v FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT SUM(n) AS t FROM (SELECT COUNT(*) AS n FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND));
SET 'table.exec.emit.late-fire.enabled' = 'true';
SET 'table.exec.emit.late-fire.delay' = '0 ms';
SET 'table.exec.emit.allow-lateness' = '20 s';
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n, SUM(v) AS v FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n, LAST_VALUE(id) AS v FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
