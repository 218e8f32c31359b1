SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
-- rowsort
SELECT k, COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS s, MIN(w) AS a, MAX(w) AS z, AVG(v) AS m FROM e GROUP BY k;
SELECT COUNT(*) AS n, SUM(v) AS s, MIN(ts) AS a, MAX(k) AS z FROM e;
SELECT COUNT(*) AS n, SUM(v) AS s FROM e WHERE v > 1000;
-- rowsort
SELECT k, SUM(v) AS s FROM e WHERE v > 1000 GROUP BY k;
-- rowsort
SELECT k, COUNT(DISTINCT v) AS d, SUM(DISTINCT v) AS s FROM e GROUP BY k;
-- rowsort
SELECT k, COUNT(*) FILTER (WHERE ok) AS y, SUM(v) FILTER (WHERE NOT ok) AS s FROM e GROUP BY k;
-- rowsort
SELECT k, ok, SUM(v) AS s FROM e GROUP BY GROUPING SETS ((k), (ok), ());
-- rowsort
SELECT k, ok, COUNT(*) AS n, GROUPING(k) AS g, GROUPING_ID(k, ok) AS gi FROM e GROUP BY ROLLUP (k, ok);
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY CUBE (item, who) HAVING SUM(amount) > 2;
-- rowsort
SELECT k, STDDEV_POP(v) AS a, VAR_SAMP(v) AS b FROM e GROUP BY k;
-- rowsort
SELECT v, COUNT(*) AS n FROM (SELECT k, COUNT(*) AS v FROM e GROUP BY k) GROUP BY v;
-- rowsort
SELECT DISTINCT k, ok FROM e;
-- rowsort
SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
-- rowsort
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, TUMBLE_START(ts, INTERVAL '20' SECOND) AS s, COUNT(*) AS n FROM e GROUP BY k, TUMBLE(ts, INTERVAL '20' SECOND);
-- rowsort
SELECT HOP_END(ts, INTERVAL '10' SECOND, INTERVAL '20' SECOND) AS s, MAX(v) AS n FROM e GROUP BY HOP(ts, INTERVAL '10' SECOND, INTERVAL '20' SECOND);
-- rowsort
SELECT * FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, ts) AS rn FROM e) WHERE rn <= 2;
-- rowsort
SELECT * FROM (SELECT k, v, RANK() OVER (PARTITION BY ok ORDER BY v) AS rn FROM e) WHERE rn <= 2;
-- rowsort
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s, COUNT(*) OVER (PARTITION BY k) AS n FROM e;
-- rowsort
SELECT id, LAG(amount) OVER (ORDER BY id) AS p, LEAD(id, 2, 0) OVER (ORDER BY id) AS q, NTILE(3) OVER (ORDER BY id) AS t FROM o;
-- rowsort
SELECT id, FIRST_VALUE(item) OVER (PARTITION BY who ORDER BY id) AS f, LAST_VALUE(item) OVER (PARTITION BY who ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM o;
-- rowsort
SELECT id, SUM(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, MAX(price) OVER (PARTITION BY item) AS m FROM o;
-- rowsort
SELECT window_start, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, k) AS rn
FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= 1;
-- rowsort
SELECT l.k, l.v, r.v FROM (SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) r
ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.v < r.v;
-- rowsort
-- differs: Flink reads the first input of a window over UNION ALL only
SELECT window_start, window_end FROM TABLE(HOP((
  SELECT CAST('2024-01-01 10:00:00' AS TIMESTAMP(3)) AS t UNION ALL SELECT CAST('2024-01-01 10:05:00' AS TIMESTAMP(3))
  UNION ALL SELECT CAST('2024-01-01 10:10:00' AS TIMESTAMP(3))), DESCRIPTOR(t), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))
GROUP BY window_start, window_end;
-- rowsort
SELECT item, COUNT(*) AS n FROM o GROUP BY item HAVING COUNT(*) > 1 AND MAX(amount) > 1;
-- rowsort
SELECT who, LISTAGG(item) AS l FROM (SELECT who, item FROM o WHERE who IS NULL) GROUP BY who;
-- rowsort
SELECT k, SUM(v) + COUNT(*) AS x, CASE WHEN MAX(v) > 4 THEN 'big' ELSE 'small' END AS c FROM e GROUP BY k;
SELECT MAX(n) AS m FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k);
SELECT k, COUNT(*) AS n FROM e GROUP BY k ORDER BY n DESC, k LIMIT 2;
-- rowsort
SELECT CASE WHEN v > 3 THEN 'high' ELSE 'low' END AS c, COUNT(*) AS n FROM e GROUP BY CASE WHEN v > 3 THEN 'high' ELSE 'low' END;
-- rowsort
SELECT EXTRACT(MINUTE FROM ts) AS m, COUNT(*) AS n FROM e GROUP BY EXTRACT(MINUTE FROM ts);
SELECT SUM(v) AS s FROM e HAVING COUNT(*) > 1000;
SELECT k, v FROM e ORDER BY v DESC NULLS FIRST, ts, k LIMIT 5;
