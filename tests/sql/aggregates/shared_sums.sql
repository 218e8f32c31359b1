-- AVG and SUM of one sum and one count, in the type of the argument, where fewer calls are needed so.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE z (i INT, x DOUBLE, y DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/zeros.json', 'format' = 'json');
CREATE VIEW big AS SELECT i, CAST(100 AS TINYINT) AS t, CAST(1.5E9 + y AS INT) AS n, CAST(0.1 * i AS FLOAT) AS f, x, ts FROM z;
CREATE VIEW gaps AS SELECT i, NULLIF(t, 1) AS t, n, f, x, ts FROM big;
SELECT AVG(t), SUM(t) FROM gaps;
SELECT AVG(t), COUNT(t) FROM gaps;
SELECT AVG(t), SUM(t), COUNT(*) FROM gaps;
SELECT AVG(t), SUM(t), COUNT(*) FROM big;
SELECT AVG(t), SUM(t), COUNT(t), AVG(n) FROM gaps;
SELECT AVG(t), SUM(t), COUNT(t), AVG(n), SUM(n), COUNT(n) FROM gaps;
SELECT i, AVG(n), SUM(n), COUNT(n), MAX(t) FROM gaps GROUP BY i;
SELECT i, AVG(n), STDDEV_POP(t) FROM gaps GROUP BY i;
SELECT i, SUM(x), AVG(x), COUNT(x) FROM z GROUP BY i;
SELECT i, SUM(x), VAR_POP(x) FROM z GROUP BY i;
SELECT AVG(f), SUM(f), COUNT(f) FROM gaps;
SELECT AVG(f), SUM(f) FROM gaps;
SELECT AVG(DISTINCT n), SUM(DISTINCT n), COUNT(DISTINCT n) FROM gaps;
SELECT AVG(n) FILTER (WHERE i > 1), SUM(n) FILTER (WHERE i > 1), COUNT(n) FILTER (WHERE i > 1) FROM gaps;
SELECT AVG(n) FILTER (WHERE i > 1), SUM(n), COUNT(n) FROM gaps;
SELECT a, c FROM (SELECT AVG(t) AS a, SUM(t) AS s, COUNT(t) AS c FROM gaps);
SELECT a, c FROM (SELECT i, AVG(t) AS a, SUM(t) AS s, COUNT(t) AS c FROM gaps GROUP BY i) WHERE s < 0;
SELECT AVG(n), SUM(n), COUNT(n) FROM (SELECT i, MAX(n) AS n FROM gaps GROUP BY i);
SELECT window_start, AVG(t), SUM(t), COUNT(t) FROM TABLE(TUMBLE(TABLE gaps, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), AVG(t), VAR_SAMP(i) FROM gaps GROUP BY TUMBLE(ts, INTERVAL '1' HOUR);
SELECT i, AVG(t), SUM(t), COUNT(t) FROM gaps GROUP BY ROLLUP (i);
-- Beside a variance the sum of an average begins with its first value, where no SUM shares it.
-- materialized
SELECT i, AVG(x), VAR_SAMP(y) FROM z GROUP BY i;
-- materialized
SELECT i, AVG(x), SUM(x), VAR_SAMP(y) FROM z GROUP BY i;
-- materialized
SELECT i, AVG(x) FILTER (WHERE y IS NOT NULL), SUM(x), STDDEV_POP(x) FROM z GROUP BY i;
-- materialized
SELECT i, AVG(x), AVG(y), SUM(y), VAR_POP(i) FROM z GROUP BY i;
-- materialized
SELECT i, AVG(DISTINCT x), AVG(y), SUM(x), VAR_POP(x) FROM z GROUP BY i;
SELECT HOP_START(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND), AVG(x), VAR_SAMP(i) FROM z GROUP BY HOP(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND);
SELECT window_start, AVG(x), SUM(y), VAR_SAMP(i) FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end;
