SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE h (
  id INT, ts TIMESTAMP(3), tl TIMESTAMP_LTZ(3), k STRING, v INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), t TINYINT, s SMALLINT, ok BOOLEAN,
  `day` DATE, tm TIME, `by` BYTES, a ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>, t9 TIMESTAMP(9), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
CREATE TABLE early (id INT, ts TIMESTAMP(3), tl TIMESTAMP_LTZ(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/before_epoch.json', 'format' = 'json');
CREATE TABLE clock (id INT, ts TIMESTAMP(3), tl TIMESTAMP_LTZ(3), k STRING, v INT, WATERMARK FOR tl AS tl - INTERVAL '30' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/clock_change.json', 'format' = 'json');
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, TUMBLE_END(ts, INTERVAL '10' SECOND) AS e, TUMBLE_ROWTIME(ts, INTERVAL '10' SECOND) AS r, COUNT(*) AS n, SUM(m) AS m FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
-- rowsort
SELECT k, HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS s, HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS e, HOP_ROWTIME(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS r, COUNT(DISTINCT v) AS n FROM h GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), k;
-- rowsort
SELECT k, SESSION_START(ts, INTERVAL '5' SECOND) AS s, SESSION_END(ts, INTERVAL '5' SECOND) AS e, SESSION_ROWTIME(ts, INTERVAL '5' SECOND) AS r, COUNT(*) AS n, LISTAGG(CAST(id AS STRING)) AS ids FROM h GROUP BY SESSION(ts, INTERVAL '5' SECOND), k;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l, MIN(d) AS d1, MAX(d) AS d2, COLLECT(v) AS c FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT HOP_START(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND) AS s, COUNT(*) AS n, SUM(DISTINCT v) AS sd FROM h GROUP BY HOP(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND);
SELECT COUNT(*) AS n FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND) HAVING COUNT(*) > 2;
-- rowsort
SELECT k, ok, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e, COUNT(*) AS n FROM h GROUP BY GROUPING SETS ((TUMBLE(ts, INTERVAL '1' MINUTE), k), (TUMBLE(ts, INTERVAL '1' MINUTE), ok));
SELECT TUMBLE_START(rt, INTERVAL '30' SECOND) AS s, SUM(n) AS n, MAX(n) AS m FROM (SELECT TUMBLE_ROWTIME(ts, INTERVAL '5' SECOND) AS rt, COUNT(*) AS n FROM h GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)) GROUP BY TUMBLE(rt, INTERVAL '30' SECOND);
SELECT window_start, SUM(n) AS n FROM TABLE(TUMBLE((SELECT TUMBLE_ROWTIME(ts, INTERVAL '5' SECOND) AS rt, COUNT(*) AS n FROM h GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)), DESCRIPTOR(rt), INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
SELECT TUMBLE_START(wt, INTERVAL '20' SECOND) AS s, SUM(n) AS n FROM (SELECT window_time AS wt, COUNT(*) AS n FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time) GROUP BY TUMBLE(wt, INTERVAL '20' SECOND);
SELECT window_start, window_end, SUM(n) AS n FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, k) GROUP BY window_start, window_end;
SELECT window_start, MAX(n) AS n, MIN(k) AS k FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '15' SECOND, INTERVAL '30' SECOND)) GROUP BY window_start, window_end, k) GROUP BY window_start, window_end;
-- rowsort
SELECT * FROM (SELECT window_start, window_end, k, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC, k) AS rn FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, k) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT id, k, v, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC) AS rn FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND))) WHERE rn = 1;
-- rowsort
SELECT id, k, window_start FROM (SELECT id, k, ts, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) AS rn FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND))) WHERE rn = 1;
-- rowsort
SELECT id, k, window_start FROM (SELECT id, k, ts, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts) AS rn FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '15' SECOND, INTERVAL '30' SECOND))) WHERE rn = 1;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, TUMBLE_START(ts, INTERVAL '20' SECOND) AS s2 FROM h GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s FROM h;
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE early, DESCRIPTOR(ts), INTERVAL '7' SECOND)) GROUP BY window_start, window_end, window_time;
SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE early, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE early, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT id, window_start, window_end FROM TABLE(HOP(TABLE early, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE early, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT id, window_start, window_end FROM TABLE(CUMULATE(TABLE early, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE early PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECOND)) GROUP BY k, window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n FROM early GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND) AS s, COUNT(*) AS n FROM early GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND);
SELECT id, SUM(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW) AS s FROM early;
SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM early;
SELECT id, FLOOR(ts TO MINUTE) AS f, COUNT(*) OVER (ORDER BY ts) AS s FROM early;
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clock, DESCRIPTOR(tl), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time;
SET 'table.local-time-zone' = 'America/New_York';
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clock, DESCRIPTOR(tl), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time;
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clock, DESCRIPTOR(tl), INTERVAL '1' DAY)) GROUP BY window_start, window_end, window_time;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE clock, DESCRIPTOR(tl), INTERVAL '1' HOUR, INTERVAL '2' HOUR)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE clock, DESCRIPTOR(tl), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end;
SELECT window_start, window_end, window_time, COUNT(*) AS n FROM TABLE(SESSION(TABLE clock, DESCRIPTOR(tl), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time;
SELECT TUMBLE_START(tl, INTERVAL '1' HOUR) AS s, TUMBLE_END(tl, INTERVAL '1' HOUR) AS e, TUMBLE_ROWTIME(tl, INTERVAL '1' HOUR) AS r, COUNT(*) AS n FROM clock GROUP BY TUMBLE(tl, INTERVAL '1' HOUR);
SELECT TUMBLE_START(tl, INTERVAL '1' DAY) AS s, COUNT(*) AS n FROM clock GROUP BY TUMBLE(tl, INTERVAL '1' DAY);
SELECT SESSION_START(tl, INTERVAL '1' HOUR) AS s, SESSION_END(tl, INTERVAL '1' HOUR) AS e, COUNT(*) AS n FROM clock GROUP BY SESSION(tl, INTERVAL '1' HOUR);
SELECT id, tl, COUNT(*) OVER (ORDER BY tl RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS n FROM clock;
SELECT window_start, SUM(n) AS n FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clock, DESCRIPTOR(tl), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
