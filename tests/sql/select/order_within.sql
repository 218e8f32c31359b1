SET 'pipeline.auto-watermark-interval' = '0';
-- A query that stands in another one orders only to cut: without LIMIT its ORDER BY means nothing, and drops no late rows.
CREATE TABLE h (id INT, v INT, k STRING, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
CREATE TABLE hs (id INT, v INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT * FROM (SELECT id, ts FROM h ORDER BY ts);
SELECT id, ts FROM (SELECT * FROM h ORDER BY ts) WHERE v > 3;
SELECT k, COUNT(*) AS n FROM (SELECT * FROM h ORDER BY ts) GROUP BY k;
SELECT id FROM (SELECT id, p FROM h ORDER BY p);
SELECT id FROM (SELECT id, v FROM h ORDER BY v DESC) WHERE id < 4;
SELECT id FROM (SELECT id, v FROM h ORDER BY k, v) ORDER BY id LIMIT 2;
SELECT k FROM (SELECT k, COUNT(*) AS n FROM h GROUP BY k ORDER BY n);
SELECT k, m FROM (SELECT k, MAX(v) AS m FROM h GROUP BY k ORDER BY SUM(v));
SELECT id, r FROM (SELECT id, SUM(v) OVER (ORDER BY ts) AS r FROM h ORDER BY ts);
SELECT x FROM (SELECT x FROM (VALUES (3), (1), (2)) AS t (x) ORDER BY x);
SELECT id FROM (SELECT id FROM h ORDER BY v OFFSET 0) WHERE id < 4;
SELECT id FROM h OFFSET 0;
SELECT id FROM (SELECT id FROM h ORDER BY ts LIMIT 2 OFFSET 0);
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT * FROM h ORDER BY ts), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM (SELECT * FROM h ORDER BY ts)) WHERE rn = 1;
SELECT id, v FROM (SELECT id, v FROM (SELECT * FROM h ORDER BY ts) ORDER BY v LIMIT 3) ORDER BY id LIMIT 2;
WITH o AS (SELECT id, v, ts FROM h ORDER BY ts) SELECT id, v FROM o;
WITH o AS (SELECT id, v, ts FROM h ORDER BY ts) SELECT id FROM o WHERE v > 1 ORDER BY ts;
-- materialized
(SELECT id FROM h ORDER BY ts) UNION ALL SELECT 99;
-- materialized
SELECT id FROM (SELECT id FROM h UNION ALL SELECT id FROM h WHERE v > 7 ORDER BY id);
-- materialized
SELECT a.id FROM (SELECT * FROM h ORDER BY ts) AS a JOIN (SELECT * FROM hs ORDER BY ts) AS b ON a.id = b.id;
-- materialized
SELECT id FROM hs WHERE id IN (SELECT id FROM h ORDER BY ts);
-- materialized
SELECT id FROM hs WHERE EXISTS (SELECT id FROM h WHERE h.id = hs.id ORDER BY ts);
-- Outermost it is there, in or without parentheses.
SELECT id FROM h ORDER BY ts;
(SELECT id FROM h ORDER BY ts);
WITH o AS (SELECT id, ts FROM h) SELECT id FROM o ORDER BY ts;
-- The order of a view holds where a query does no more than select its rows, and where the view does not show what it orders by.
CREATE TEMPORARY VIEW vo AS SELECT id, v, k, ts FROM h ORDER BY ts;
CREATE TEMPORARY VIEW hidden AS SELECT id, v, k FROM h ORDER BY ts;
CREATE TEMPORARY VIEW big AS SELECT id, v, k, ts FROM vo WHERE v > 1;
SELECT id, v FROM vo;
SELECT id FROM vo WHERE v > 3;
SELECT id, COUNT(*) OVER (ORDER BY ts) AS n FROM vo;
SELECT COUNT(*) AS n FROM vo;
SELECT COUNT(*) AS n FROM hidden;
SELECT COUNT(*) AS n FROM big;
SELECT DISTINCT k FROM vo;
SELECT COUNT(*) AS n FROM vo HAVING COUNT(*) > 3;
SELECT id FROM vo LIMIT 3;
SELECT id FROM vo ORDER BY ts;
SELECT id FROM (SELECT * FROM vo);
WITH o AS (SELECT * FROM vo) SELECT id FROM o;
-- materialized
SELECT id FROM vo UNION ALL SELECT id FROM h WHERE v > 100;
-- materialized
SELECT id, x FROM vo, UNNEST(ARRAY[1, 2]) AS u (x) WHERE id < 4;
SELECT T.a FROM vo MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS a ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A) DEFINE A AS A.v > 3) AS T;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE vo, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n FROM vo GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
-- materialized
SELECT a.id FROM vo AS a JOIN h AS b ON a.id = b.id;
-- materialized
SELECT id FROM hs WHERE id IN (SELECT id FROM vo);
-- What it names must be there all the same.
SELECT COUNT(*) AS n FROM (SELECT id FROM h ORDER BY nope);
SELECT COUNT(*) AS n FROM (SELECT id FROM h ORDER BY 3);
SELECT COUNT(*) AS n FROM (SELECT DISTINCT id FROM h ORDER BY v);
SELECT k FROM (SELECT k FROM h GROUP BY k ORDER BY v);
SELECT id FROM (SELECT id FROM h ORDER BY ts OFFSET 2);
-- A view that has no more than its own order above its rows; a new name for a column, or a view over it, is more.
CREATE TEMPORARY VIEW renamed (a, t) AS SELECT id, ts FROM h ORDER BY ts;
CREATE TEMPORARY VIEW bracketed AS (SELECT id, ts FROM h ORDER BY ts);
CREATE TEMPORARY VIEW common AS WITH o AS (SELECT id, ts FROM h) SELECT id, ts FROM o ORDER BY ts;
CREATE TEMPORARY VIEW over_it AS SELECT * FROM vo;
SELECT COUNT(*) AS n FROM renamed;
SELECT a FROM renamed;
SELECT COUNT(*) AS n FROM bracketed;
SELECT COUNT(*) AS n FROM common;
SELECT id FROM common;
SELECT COUNT(*) AS n FROM over_it;
SELECT id FROM over_it LIMIT 3;
-- materialized
SELECT id FROM vo WHERE id IN (SELECT v FROM h);
-- materialized
SELECT id, (SELECT COUNT(*) FROM h) AS n FROM vo;
SELECT a.id FROM vo AS a (id, x, y, z);
(SELECT id FROM vo);
WITH o AS (SELECT 1) SELECT id FROM vo;
-- An order that a stream cannot have is refused only where it is kept.
CREATE TEMPORARY VIEW by_value AS SELECT id, v FROM h ORDER BY v;
CREATE TEMPORARY VIEW by_call AS SELECT id, v FROM h ORDER BY v + 1;
CREATE TEMPORARY VIEW by_count AS SELECT k, COUNT(*) AS n FROM h GROUP BY k ORDER BY n;
CREATE TEMPORARY VIEW of_both AS SELECT id, v FROM h UNION ALL SELECT v, id FROM h ORDER BY id;
CREATE TEMPORARY VIEW over_value AS SELECT * FROM by_value;
SELECT id FROM by_value ORDER BY v LIMIT 3;
SELECT COUNT(*) AS n FROM by_value;
SELECT MAX(n) AS n FROM by_count;
SELECT COUNT(*) AS n FROM of_both;
SELECT id FROM by_value;
SELECT n FROM by_count;
SELECT id FROM of_both;
SELECT COUNT(*) AS n FROM by_call;
SELECT COUNT(*) AS n FROM over_value;
