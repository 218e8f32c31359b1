SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE ticks (sym STRING NOT NULL, px DECIMAL(8, 2), vol INT, seq INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_ticks.json', 'format' = 'json');
CREATE VIEW candles AS SELECT sym, window_start AS ws, window_end AS we, window_time AS wt, FIRST_VALUE(px) AS o, MAX(px) AS h, MIN(px) AS l, LAST_VALUE(px) AS c, SUM(vol) AS v, SUM(px * vol) / SUM(vol) AS vwap, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY sym, window_start, window_end, window_time;
-- rowsort
SELECT * FROM candles;
-- rowsort
SELECT sym, ws, c, c - LAG(c) OVER (PARTITION BY sym ORDER BY wt) AS chg, ROUND(100 * (c - LAG(c) OVER (PARTITION BY sym ORDER BY wt)) / LAG(c) OVER (PARTITION BY sym ORDER BY wt), 2) AS pct FROM candles;
-- rowsort
SELECT sym, ws, AVG(c) OVER (PARTITION BY sym ORDER BY wt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS ma3, STDDEV_POP(c) OVER (PARTITION BY sym ORDER BY wt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS sd FROM candles;
-- rowsort
SELECT sym, window_start, MAX(h) AS h, MIN(l) AS l, SUM(v) AS v, CAST(SUM(v * vwap) / SUM(v) AS DECIMAL(12, 4)) AS vw FROM TABLE(TUMBLE(TABLE candles, DESCRIPTOR(wt), INTERVAL '2' MINUTE)) GROUP BY sym, window_start, window_end;
SELECT * FROM (SELECT sym, px, vol FROM ticks WHERE px IS NOT NULL) AS t WHERE vol IS NULL OR vol >= 10;
-- rowsort
SELECT sym, px, seq, ROW_NUMBER() OVER (PARTITION BY sym ORDER BY ts) AS r, SUM(vol) OVER (PARTITION BY sym ORDER BY ts ROWS UNBOUNDED PRECEDING) AS cv FROM ticks;
SELECT sym, COUNT(*) AS n, SUM(px * vol) AS notional, SUM(px * vol) / NULLIF(SUM(vol), 0) AS vwap, AVG(px) AS ap, MAX(px) AS hi, MIN(px) AS lo, (MAX(px) - MIN(px)) / MIN(px) AS rng FROM ticks GROUP BY sym;
SELECT sym, px, cnt FROM (SELECT sym, px, COUNT(*) AS cnt, ROW_NUMBER() OVER (PARTITION BY sym ORDER BY COUNT(*) DESC, px DESC) AS rn FROM ticks GROUP BY sym, px) WHERE rn <= 2;
SELECT sym, px, seq, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY sym ORDER BY px DESC, seq) AS rn FROM ticks) WHERE rn <= 3;
SELECT sym, px, seq FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY sym ORDER BY px, seq DESC) AS rn FROM ticks) WHERE rn <= 2;
SELECT sym, px, seq FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY sym ORDER BY vol DESC) AS rn FROM ticks) WHERE rn BETWEEN 2 AND 3;
-- rowsort
SELECT window_start, sym, px, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, sym ORDER BY px DESC, seq) AS rn FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '60' SECOND))) WHERE rn <= 1;
-- rowsort
SELECT sym, CASE WHEN d > 0 THEN 'up' WHEN d < 0 THEN 'down' ELSE 'flat' END AS dir, COUNT(*) AS n FROM (SELECT sym, px - LAG(px) OVER (PARTITION BY sym ORDER BY ts) AS d FROM ticks) GROUP BY sym, CASE WHEN d > 0 THEN 'up' WHEN d < 0 THEN 'down' ELSE 'flat' END;
SELECT sym, grp, COUNT(*) AS len, MIN(ts) AS s, MAX(ts) AS e FROM (SELECT sym, ts, up, rn - SUM(up) OVER (PARTITION BY sym ORDER BY ts) AS grp FROM (SELECT sym, ts, up, ROW_NUMBER() OVER (PARTITION BY sym ORDER BY ts) AS rn FROM (SELECT sym, ts, CASE WHEN px > LAG(px) OVER (PARTITION BY sym ORDER BY ts) THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS up FROM ticks))) WHERE up = 1 GROUP BY sym, grp;
-- rowsort
SELECT sym, px, LAST_VALUE(px) OVER (PARTITION BY sym ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS lv, FIRST_VALUE(px) OVER (PARTITION BY sym ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS fv FROM ticks;
-- materialized
SELECT a.sym, a.px, b.px AS bpx FROM ticks AS a JOIN ticks AS b ON a.sym = b.sym AND a.seq = b.seq - 1;
-- materialized
SELECT a.ws, a.sym, a.c AS ac, b.c AS bc, a.c / b.c AS ratio FROM candles AS a JOIN candles AS b ON a.ws = b.ws AND a.we = b.we AND a.sym < b.sym;
SELECT MAX(h) AS high FROM candles;
SELECT sym, LISTAGG(CAST(px AS STRING), ',') AS ps FROM ticks WHERE seq < 20 GROUP BY sym;
SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS w, sym, SUM(vol) AS v, COUNT(DISTINCT px) AS dp, AVG(px) AS a FROM ticks GROUP BY sym, TUMBLE(ts, INTERVAL '1' MINUTE) HAVING SUM(vol) > 20;
SELECT px, CAST(px AS DOUBLE) AS d, px * 1.1 AS m, px / 3 AS q, CAST(px / 3 AS DECIMAL(10, 3)) AS c, px + vol AS s, px - 0.005 AS mi, -px AS ne, ABS(-px) AS ab, FLOOR(px) AS fl, CEIL(px) AS ce, ROUND(px, 1) AS ro, TRUNCATE(px, 1) AS tr, MOD(px, 3) AS mo, POWER(px, 2) AS po, SQRT(px) AS sq, SIGN(px) AS si FROM ticks WHERE seq < 10;
SELECT CAST(SUM(px) AS DECIMAL(10, 1)) AS s, SUM(CAST(px AS DOUBLE)) AS d, SUM(vol) / COUNT(vol) AS i, AVG(vol) AS a, SUM(px) / COUNT(*) AS b, COUNT(px) * 1.5 AS x FROM ticks;
SELECT sym, MAX(ts) AS t, CAST(MAX(ts) AS DATE) AS d, CAST(MAX(ts) AS TIME) AS ti, DATE_FORMAT(MAX(ts), 'EEE dd MMM yyyy HH:mm:ss.SSS') AS f FROM ticks GROUP BY sym;
SELECT CEIL(ts TO HOUR) AS ch, FLOOR(ts TO MINUTE) AS fm, COUNT(*) AS n FROM ticks GROUP BY CEIL(ts TO HOUR), FLOOR(ts TO MINUTE);
SELECT sym, COUNT(*) FILTER (WHERE vol > 5 AND px > 10) AS big, SUM(vol) FILTER (WHERE px IS NULL) AS nopx, AVG(px) FILTER (WHERE vol = 1) AS a FROM ticks GROUP BY sym;
SELECT seq, sym, px FROM ticks WHERE (sym, px) IN (('A', 10.25), ('B', 9.50));
SELECT seq FROM ticks WHERE px BETWEEN 9.5 AND 10.25 AND sym NOT IN ('C') AND vol IS NOT NULL;
SELECT sym, window_start, window_end, MAX(px) - MIN(px) AS spread FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) GROUP BY sym, window_start, window_end HAVING COUNT(*) >= 3;
-- rowsort
SELECT window_end, sym, SUM(vol) AS v FROM TABLE(CUMULATE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '2' MINUTE)) GROUP BY window_start, window_end, sym;
SELECT sym, v FROM (SELECT sym, SUM(vol) AS v FROM ticks GROUP BY sym) ORDER BY v DESC LIMIT 2;
SELECT sym, ts, px, MAX(px) OVER (PARTITION BY sym ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW) AS hi30, MIN(px) OVER (PARTITION BY sym ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND CURRENT ROW) AS lo30 FROM ticks;
