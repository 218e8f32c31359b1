-- Both zeros: they are equal, and yet two keys; a sum of -0.0 alone stays what it is.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE z (i INT, x DOUBLE, y DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/zeros.json', 'format' = 'json');
CREATE VIEW f AS SELECT i, CAST(x AS FLOAT) AS x, CAST(y AS FLOAT) AS y FROM z;
SELECT i, SUM(x) AS s, AVG(x) AS a, MIN(x), MAX(x), FIRST_VALUE(x), COUNT(DISTINCT x) AS c, SUM(DISTINCT x) FROM z GROUP BY i;
SELECT i, SUM(x) AS s, AVG(x) AS a, MIN(x), MAX(x), COUNT(*) FROM f GROUP BY i;
SELECT x, COUNT(*) FROM z GROUP BY x;
SELECT SUM(m), COUNT(m), COUNT(*) FROM (SELECT i, SUM(x) AS m, COUNT(*) FROM z GROUP BY i);
SELECT i, SUM(x), COUNT(*) FROM (SELECT i, y, MAX(x) AS x FROM z GROUP BY i, y) GROUP BY i;
-- rowsort
SELECT window_start, i, SUM(x), MIN(x), MAX(x), AVG(x) FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, i;
-- rowsort
SELECT window_start, SUM(x), MIN(x), MAX(x), AVG(x) FROM TABLE(HOP(TABLE z, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, i, SUM(x), MIN(x), MAX(x) FROM TABLE(SESSION(TABLE z PARTITION BY i, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, i;
SELECT TUMBLE_START(ts, INTERVAL '2' SECOND), SUM(x), MIN(x), MAX(x), AVG(x) FROM z GROUP BY TUMBLE(ts, INTERVAL '2' SECOND);
-- rowsort
SELECT i, x, SUM(x) OVER w, MIN(x) OVER w, AVG(x) OVER w FROM z WINDOW w AS (PARTITION BY i ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
-- rowsort
SELECT i, x, SUM(x) OVER w, MAX(x) OVER w, AVG(x) OVER w FROM z WINDOW w AS (PARTITION BY i ORDER BY ts);
SELECT i, x, y, x < y, x = y, x IS DISTINCT FROM y, SIGN(x), GREATEST(x, y), LEAST(x, y), GREATEST(x, y, 0E0), NULLIF(x, y), x + y, x - y FROM z;
SELECT i, SIGN(x), GREATEST(x, y), LEAST(x, y) FROM f;
-- differs: -0.0 is not less than 0.0, as it equals that; Flink compares a DOUBLE with a DECIMAL by its bits where it is not =
SELECT i, x < 0.0, x >= 0.0, x = 0.0, x < 0, x < 0E0 FROM z WHERE i < 3;
-- The average of a key is the key, but not beside a sum.
SELECT x, AVG(x) AS a, COUNT(*) AS n FROM z GROUP BY x;
SELECT x, AVG(x) AS a, SUM(y) AS n FROM z GROUP BY x;
SELECT x, AVG(x) AS a, VAR_POP(i) AS n FROM z GROUP BY x;
-- rowsort
SELECT x, TUMBLE_ROWTIME(ts, INTERVAL '5' SECOND), AVG(x) AS a FROM z GROUP BY x, TUMBLE(ts, INTERVAL '5' SECOND);
-- rowsort
SELECT x, AVG(x) AS a, MIN(y) AS m FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY x, window_start, window_end;
SELECT * FROM z MATCH_RECOGNIZE (ORDER BY ts MEASURES AVG(A.x) AS a, SUM(A.x) AS s, AVG(B.y) AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE A AS TRUE);
