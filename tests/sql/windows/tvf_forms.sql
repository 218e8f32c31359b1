SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE h (
  id INT, ts TIMESTAMP(3), tl TIMESTAMP_LTZ(3), k STRING, v INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), t TINYINT, s SMALLINT, ok BOOLEAN,
  `day` DATE, tm TIME, `by` BYTES, a ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>, t9 TIMESTAMP(9), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT window_start, window_end, window_time, COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS sv, MIN(d) AS d1, MAX(d) AS d2 FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(DATA => TABLE h, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, `OFFSET` => INTERVAL '3' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '-3' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '25' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '5' HOUR)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1:30' MINUTE TO SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' MONTH)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '2.5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(m) AS m, AVG(d) AS d FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY k, window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n, SUM(m) AS m FROM TABLE(HOP(DATA => TABLE h, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '5' SECOND, SIZE => INTERVAL '10' SECOND, `OFFSET` => INTERVAL '2' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n, SUM(m) AS m FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND, INTERVAL '-1' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT id, window_start, window_end, window_time FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND));
SELECT window_start, window_end, COUNT(*) AS n, SUM(m) AS m FROM TABLE(CUMULATE(TABLE h, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(DATA => TABLE h, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '5' SECOND, SIZE => INTERVAL '20' SECOND, `OFFSET` => INTERVAL '7' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE h, DESCRIPTOR(ts), INTERVAL '7' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT id, window_start, window_end, window_time FROM TABLE(CUMULATE(TABLE h, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND));
-- rowsort
SELECT id, k, window_start, window_end, window_time FROM TABLE(SESSION(TABLE h PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND));
-- rowsort
SELECT id, window_start, window_end, window_time FROM TABLE(SESSION(TABLE h, DESCRIPTOR(ts), INTERVAL '3' SECOND));
-- rowsort
SELECT m, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE h PARTITION BY m, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY m, window_start, window_end;
-- rowsort
SELECT r, a, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE h PARTITION BY (r, a), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY r, a, window_start, window_end;
-- rowsort
SELECT `by`, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, `by`;
-- rowsort
SELECT d, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, d;
-- rowsort
SELECT f, `day`, window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, f, `day`;
-- rowsort
SELECT r, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, r;
-- rowsort
SELECT a, window_start, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, a;
-- rowsort
SELECT mp, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, mp;
-- rowsort
SELECT tl, t9, tm, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, tl, t9, tm;
SELECT window_start, window_end, COLLECT(v) AS c, LISTAGG(k) AS l, LISTAGG(DISTINCT k, '/') AS ld, FIRST_VALUE(v) AS fv, LAST_VALUE(v) AS lv FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, AVG(v) AS a1, AVG(m) AS a2, AVG(f) AS a3, AVG(t) AS a4, SUM(t) AS s4, SUM(s) AS s5, SUM(b) AS s6, SUM(f) AS s7, VAR_POP(v) AS vp, VAR_SAMP(m) AS vs, STDDEV_POP(d) AS sp, STDDEV_SAMP(s) AS ss FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, MIN(k) AS k1, MAX(k) AS k2, MIN(ok) AS o1, MAX(ok) AS o2, MIN(`day`) AS d1, MAX(tm) AS t1, MAX(t9) AS t2, MIN(tl) AS l1, MAX(ts) AS m1 FROM TABLE(CUMULATE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, FIRST_VALUE(r) AS fr, LAST_VALUE(a) AS la, FIRST_VALUE(mp) AS fm, LAST_VALUE(`by`) AS lb, ARRAY_AGG(v) AS av, ARRAY_AGG(DISTINCT k) AS ak FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, k, ok, GROUPING(k) AS gk, GROUPING_ID(k, ok) AS g, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, GROUPING SETS ((k), (ok), (k, ok), ());
-- rowsort
SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, ROLLUP (k, ok);
-- rowsort
SELECT window_start, window_end, k, ok, COUNT(*) AS n FROM TABLE(HOP(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY CUBE (k, ok), window_start, window_end;
-- rowsort
SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY GROUPING SETS ((window_start, window_end, k), (window_start, window_end));
-- rowsort
SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY GROUPING SETS ((window_start, window_end), (k));
SELECT window_start FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end HAVING COUNT(*) > 3 AND MAX(v) IS NOT NULL;
SELECT window_end, CASE WHEN SUM(v) > 10 THEN 'many' ELSE 'few' END AS w, COUNT(*) * 2 + 1 AS n, CAST(AVG(d) AS STRING) AS d FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE v IS NOT NULL GROUP BY window_end, window_start;
SELECT TIMESTAMPDIFF(SECOND, window_start, window_end) AS l, EXTRACT(MINUTE FROM window_start) AS mi, DATE_FORMAT(window_end, 'HH:mm:ss') AS e, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT COUNT(*) AS n, MAX(v) AS m FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start AS window_end, window_end AS window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_end;
SELECT window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_time;
SELECT DISTINCT window_start, window_end, ok FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND));
SELECT DISTINCT window_start, k FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND));
CREATE VIEW hv AS SELECT id, ts AS rt, k, v, m FROM h WHERE v IS NOT NULL;
SELECT window_start, COUNT(*) AS n, SUM(m) AS m FROM TABLE(TUMBLE(TABLE hv, DESCRIPTOR(rt), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
WITH c AS (SELECT ts AS rt, v * 2 AS w FROM h) SELECT window_start, SUM(w) AS w FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(rt), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, SUM(w) AS w FROM TABLE(HOP((SELECT ts AS rt, v * 2 AS w FROM h WHERE k = 'a'), DESCRIPTOR(rt), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT q.window_start, q.n FROM (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) AS q WHERE q.n > 2;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(v), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts, k), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(t9), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT * FROM (SELECT id, window_start AS ws, window_end AS we FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE id < 4;
SELECT ws, COUNT(*) AS n FROM (SELECT id, window_start AS ws, window_end AS we FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE id > 4) GROUP BY ws, we;
SELECT ws, COUNT(*) AS n FROM (SELECT id, window_start + INTERVAL '1' SECOND AS ws, window_end AS we FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND))) GROUP BY ws, we;
SELECT T.window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS T GROUP BY T.window_start, T.window_end;
SELECT window_start, PERCENTILE(v, 0.5) AS p FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE v) AS j, JSON_ARRAYAGG(v) AS ja FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, APPROX_COUNT_DISTINCT(v) AS p FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, SINGLE_VALUE(v) AS p FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, COUNT(v, d) AS n, COUNT(DISTINCT v, k) AS dn, COUNT(DISTINCT ROW(v, k)) AS rn FROM TABLE(TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
