SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE clicks (uid INT, page STRING, src STRING, ms INT, url STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '30' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_clicks.json', 'format' = 'json');
CREATE TEMPORARY VIEW sess AS SELECT uid, window_start AS ws, window_end AS we, window_time AS wt, COUNT(*) AS n, MAX(CASE WHEN page = 'cart' THEN 1 ELSE 0 END) AS cart, MAX(CASE WHEN page = 'pay' THEN 1 ELSE 0 END) AS paid, LISTAGG(page, '>') AS path, SUM(ms) AS ms FROM TABLE(SESSION(TABLE clicks PARTITION BY uid, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY uid, window_start, window_end, window_time;
SELECT * FROM sess;
SELECT uid, COUNT(*) AS sessions, AVG(n) AS avg_n, AVG(CAST(n AS DOUBLE)) AS avg_d, SUM(cart) AS carts, MAX(we) AS l FROM sess GROUP BY uid;
SELECT window_start, window_end, COUNT(*) AS sessions, SUM(paid) AS paid, 100.0 * SUM(paid) / COUNT(*) AS conv FROM TABLE(TUMBLE(TABLE sess, DESCRIPTOR(wt), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
SELECT uid, ws, we, TIMESTAMPDIFF(SECOND, ws, we) AS secs, path FROM sess WHERE n > 1;
SELECT PARSE_URL(url, 'HOST') AS h, PARSE_URL(url, 'QUERY', 'id') AS id, COUNT(*) AS n FROM clicks GROUP BY PARSE_URL(url, 'HOST'), PARSE_URL(url, 'QUERY', 'id');
SELECT page, COUNT(*) AS n, COUNT(DISTINCT uid) AS u, COUNT(DISTINCT uid) FILTER (WHERE src = 'ad') AS ad, COUNT(DISTINCT src) AS r FROM clicks GROUP BY page;
SELECT window_start, COUNT(DISTINCT uid) AS uv, COUNT(*) AS pv FROM TABLE(CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(DISTINCT uid) AS uv, COUNT(*) AS pv FROM TABLE(CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
SELECT DATE_FORMAT(ts, 'yyyyMMdd') AS d, MAX(DATE_FORMAT(ts, 'HH:mm')) AS m, COUNT(DISTINCT uid) AS uv FROM clicks GROUP BY DATE_FORMAT(ts, 'yyyyMMdd');
SELECT page, rn, n FROM (SELECT page, n, ROW_NUMBER() OVER (ORDER BY n DESC, page) AS rn FROM (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page)) WHERE rn <= 3;
SELECT * FROM clicks MATCH_RECOGNIZE (PARTITION BY uid ORDER BY ts MEASURES A.ts AS t0, B.ts AS t1, C.ts AS t2, A.src AS src ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A X*? B Y*? C) WITHIN INTERVAL '20' MINUTE DEFINE A AS A.page = 'home', B AS B.page = 'item', C AS C.page IN ('cart', 'pay')) AS f;
SELECT uid, MIN(CASE WHEN page = 'home' THEN ts END) AS h, MIN(CASE WHEN page = 'cart' THEN ts END) AS c, MIN(CASE WHEN page = 'pay' THEN ts END) AS p FROM clicks GROUP BY uid;
-- materialized
SELECT h.uid, h.ts AS hts, c.ts AS cts FROM (SELECT uid, ts FROM clicks WHERE page = 'home') AS h JOIN (SELECT uid, ts FROM clicks WHERE page = 'cart') AS c ON h.uid = c.uid AND c.ts BETWEEN h.ts AND h.ts + INTERVAL '15' MINUTE;
SELECT step, COUNT(DISTINCT uid) AS users FROM (SELECT uid, CASE page WHEN 'home' THEN 1 WHEN 'item' THEN 2 WHEN 'cart' THEN 3 WHEN 'pay' THEN 4 END AS step FROM clicks) WHERE step IS NOT NULL GROUP BY step;
SELECT uid, page, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid, page ORDER BY ts) AS rn FROM clicks) WHERE rn = 1;
SELECT uid, page, src, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY ts DESC) AS rn FROM clicks WHERE page IS NOT NULL) WHERE rn = 1;
SELECT uid, page, ts, prev_page FROM (SELECT uid, page, ts, LAG(page) OVER (PARTITION BY uid ORDER BY ts) AS prev_page FROM clicks) WHERE page = prev_page;
-- rowsort
SELECT prev_page, page, COUNT(*) AS n FROM (SELECT uid, page, LAG(page) OVER (PARTITION BY uid ORDER BY ts) AS prev_page FROM clicks) GROUP BY prev_page, page;
-- rowsort
SELECT uid, sess_no, COUNT(*) AS n, MIN(ts) AS f, MAX(ts) AS l FROM (SELECT uid, ts, SUM(nw) OVER (PARTITION BY uid ORDER BY ts) AS sess_no FROM (SELECT uid, ts, CASE WHEN TIMESTAMPDIFF(SECOND, LAG(ts) OVER (PARTITION BY uid ORDER BY ts), ts) <= 60 THEN 0 ELSE 1 END AS nw FROM clicks)) GROUP BY uid, sess_no;
SELECT src, AVG(ms) AS a, SUM(ms) AS s, COUNT(ms) AS c, MIN(NULLIF(ms, 0)) AS mn FROM clicks GROUP BY src HAVING COUNT(*) > 5;
SELECT CASE WHEN ms < 200 THEN 'fast' WHEN ms < 900 THEN 'mid' WHEN ms IS NULL THEN 'none' ELSE 'slow' END AS b, COUNT(*) AS n FROM clicks GROUP BY CASE WHEN ms < 200 THEN 'fast' WHEN ms < 900 THEN 'mid' WHEN ms IS NULL THEN 'none' ELSE 'slow' END;
-- materialized
SELECT uid, COUNT(*) AS n FROM clicks WHERE uid IN (SELECT uid FROM clicks WHERE page = 'pay') GROUP BY uid;
-- rowsort
SELECT window_start, page, n, SUM(n) OVER (PARTITION BY page ORDER BY wt) AS run FROM (SELECT window_start, window_time AS wt, page, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end, window_time, page);
-- materialized
SELECT a.window_start, a.n AS home, b.n AS cart FROM (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) WHERE page = 'home' GROUP BY window_start, window_end) AS a LEFT JOIN (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) WHERE page = 'cart' GROUP BY window_start, window_end) AS b ON a.window_start = b.window_start AND a.window_end = b.window_end;
-- rowsort
SELECT uid, page, ts, COUNT(*) OVER (PARTITION BY uid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS k FROM clicks WHERE uid IS NOT NULL;
SELECT uid, t.p, COUNT(*) AS n FROM clicks CROSS JOIN UNNEST(SPLIT(COALESCE(url, ''), '/')) AS t (p) WHERE p <> '' GROUP BY uid, t.p;
SELECT uid, COLLECT(DISTINCT page) AS pages FROM clicks GROUP BY uid;
SELECT uid, ARRAY_AGG(DISTINCT page) AS pages FROM clicks WHERE page IS NOT NULL GROUP BY uid;
SELECT * FROM (SELECT uid, page FROM clicks) QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY page DESC) <= 2;
-- materialized
SELECT uid FROM clicks WHERE page = 'home' EXCEPT ALL SELECT uid FROM clicks WHERE page = 'item';
SELECT COUNT(*) FILTER (WHERE page = 'home') AS home, COUNT(*) FILTER (WHERE page = 'item') AS item, COUNT(DISTINCT CASE WHEN page = 'pay' THEN uid END) AS payers FROM clicks;
SELECT uid, HOUR(ts) AS h, DAYOFWEEK(ts) AS dw, QUARTER(ts) AS q, COUNT(*) AS n FROM clicks GROUP BY uid, HOUR(ts), DAYOFWEEK(ts), QUARTER(ts);
-- rowsort
SELECT uid, LAST_VALUE(page) AS l, FIRST_VALUE(page) AS f FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY uid, window_start, window_end;
-- rowsort
SELECT uid, ts, ms, AVG(ms) OVER w AS a, MIN(ms) OVER w AS mi, MAX(ms) OVER w AS ma, SUM(ms) OVER w AS su, COUNT(ms) OVER w AS co FROM clicks WINDOW w AS (PARTITION BY uid ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);
SELECT d, COUNT(*) AS n FROM (SELECT uid, DATE_FORMAT(ts, 'yyyy-MM-dd') AS d, COUNT(*) AS c FROM clicks GROUP BY uid, DATE_FORMAT(ts, 'yyyy-MM-dd')) WHERE c > 3 GROUP BY d;
SELECT c, COUNT(*) AS users FROM (SELECT uid, COUNT(*) AS c FROM clicks GROUP BY uid) GROUP BY c;
SELECT uid, MAX(ts) AS l, TIMESTAMPDIFF(MINUTE, MIN(ts), MAX(ts)) AS span FROM clicks GROUP BY uid HAVING COUNT(*) >= 5;
