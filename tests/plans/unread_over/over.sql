-- the only call
SELECT k FROM (SELECT k, SUM(v) OVER (ORDER BY ts) AS n FROM e);
-- one of two, of one frame and of two
SELECT k, n FROM (SELECT k, SUM(v) OVER (ORDER BY ts) AS n, COUNT(v) OVER (ORDER BY ts) AS m FROM e);
SELECT k FROM (SELECT k, SUM(v) OVER (ORDER BY ts) AS n, COUNT(v) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM e);
-- read by a filter, or kept by one
SELECT k FROM (SELECT k, v, SUM(v) OVER (ORDER BY ts) AS n FROM e) WHERE v > 2;
SELECT k FROM (SELECT k, v FROM (SELECT k, v, SUM(v) OVER (ORDER BY ts) AS n FROM e)) WHERE v > 2;
SELECT k FROM (SELECT k, v, SUM(v) OVER (ORDER BY ts) AS n FROM e) WHERE 1 = 1;
-- an aggregate reads through its own projection
SELECT SUM(v) AS s FROM (SELECT k, v, SUM(v) OVER (ORDER BY ts) AS n FROM e);
SELECT COUNT(*) AS s FROM (SELECT k, v, SUM(v) OVER (ORDER BY ts) AS n FROM e);
-- a window of GROUP BY reads no more than the aggregate does
SELECT COUNT(k) AS c FROM (SELECT k, ts, SUM(v) OVER (ORDER BY ts) AS n FROM e) GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE);
