-- Calls over one window are computed in runs, and the first of a run says how rows with equal values of the order are seen.
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE all_rows (id INT, v INT, k STRING, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
-- So few that rows with equal values stay in the order in which they came.
CREATE TEMPORARY VIEW h AS SELECT * FROM all_rows WHERE id < 9;
SELECT id, RANK() OVER w AS r, CUME_DIST() OVER w AS c FROM h WINDOW w AS (ORDER BY k);
SELECT id, CUME_DIST() OVER w AS c, RANK() OVER w AS r, PERCENT_RANK() OVER w AS p FROM h WINDOW w AS (ORDER BY k);
SELECT id, DENSE_RANK() OVER w AS r, PERCENT_RANK() OVER w AS p, CUME_DIST() OVER w AS c FROM h WINDOW w AS (ORDER BY k);
SELECT id, ROW_NUMBER() OVER w AS r, CUME_DIST() OVER w AS c, NTILE(3) OVER w AS t, RANK() OVER w AS x FROM h WINDOW w AS (ORDER BY k);
SELECT id, RANK() OVER w AS r, LAG(id) OVER w AS l, CUME_DIST() OVER w AS c FROM h WINDOW w AS (ORDER BY k);
SELECT id, RANK() OVER w + CUME_DIST() OVER w AS c FROM h WINDOW w AS (ORDER BY k);
SELECT id, NTILE(3) OVER w AS t, COUNT(*) OVER w AS n, SUM(id) OVER w AS s, LAST_VALUE(id) OVER w AS l FROM h WINDOW w AS (ORDER BY k);
SELECT id, COUNT(*) OVER w AS n, NTILE(3) OVER w AS t FROM h WINDOW w AS (ORDER BY k);
SELECT id, NTILE(3) OVER w AS t, RANK() OVER w AS r, SUM(id) OVER w AS s FROM h WINDOW w AS (ORDER BY k);
SELECT id, NTILE(3) OVER w AS t, SUM(id) OVER w AS s FROM h WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
SELECT id, SUM(id) OVER w AS s, NTILE(3) OVER w AS t FROM h WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
SELECT id, NTILE(3) OVER w AS t, SUM(id) OVER w AS s FROM h WINDOW w AS (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);
SELECT id, COUNT(*) OVER w AS n FROM h WINDOW w AS (ORDER BY k) QUALIFY NTILE(2) OVER w = 1;
SELECT id, RANK() OVER w AS r FROM h WINDOW w AS (ORDER BY k) ORDER BY CUME_DIST() OVER (ORDER BY k), id LIMIT 5;
