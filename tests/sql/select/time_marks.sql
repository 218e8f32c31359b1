SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE q (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

-- What once was a time attribute is shown as one, though it is none any more.
-- materialized
SELECT e.ts, q.v FROM e JOIN q ON e.v = q.v;
-- materialized
SELECT e.ts, q.v FROM q LEFT JOIN e ON e.v = q.v;
SELECT MAX(ts) AS hi, MIN(ts) AS lo, FIRST_VALUE(ts) AS f, LAST_VALUE(ts) AS l, COUNT(ts) AS n FROM e;
SELECT k, MAX(ts) AS hi FROM e GROUP BY k;
SELECT k, MAX(hi) AS higher FROM (SELECT k, v, MAX(ts) AS hi FROM e GROUP BY k, v) GROUP BY k;
-- rowsort
SELECT window_start, MAX(ts) AS hi FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- materialized
SELECT ts FROM e EXCEPT SELECT ts FROM e WHERE v = 1;
-- materialized
SELECT ts FROM e INTERSECT ALL SELECT ts FROM e WHERE v = 1;
-- materialized
SELECT k, (SELECT MAX(ts) FROM e) AS latest FROM q;
-- rowsort
SELECT k, LAG(ts) OVER (PARTITION BY k ORDER BY ts) AS one_before FROM e;
-- rowsort
SELECT k, LAST_VALUE(ts) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS l, MAX(ts) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM e;
SELECT COALESCE(ts, ts) AS a, CASE WHEN v > 1 THEN ts END AS b, IF(v > 1, ts, ts) AS c, NULLIF(ts, ts) AS d, GREATEST(ts, ts) AS g, ts + INTERVAL '1' SECOND AS h, FLOOR(ts TO MINUTE) AS f FROM e LIMIT 1;
SELECT ts FROM (SELECT DISTINCT ts FROM e);
SELECT ts, n FROM (SELECT ts, k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, ts) AS n FROM e) WHERE n <= 2;
-- materialized
SELECT ts FROM e WHERE v IN (SELECT v FROM q);
-- materialized
SELECT ts FROM e WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.v = e.v AND q.v > 2);
-- rowsort
SELECT MAX(ts) FILTER (WHERE v > 1) AS m FROM e GROUP BY GROUPING SETS ((k), ());
-- materialized
SELECT a.ts FROM (SELECT MAX(ts) AS ts, v FROM e GROUP BY v) AS a JOIN q ON a.v = q.v;
