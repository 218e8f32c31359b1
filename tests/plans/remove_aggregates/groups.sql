SELECT DISTINCT s, n FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s);
SELECT s, MAX(n) AS m, SUM(n) AS t, COUNT(n) AS c, COUNT(*) AS r, COUNT(x) AS d FROM (SELECT s, COUNT(*) AS n, MAX(a) AS x FROM t GROUP BY s) GROUP BY s;
-- not its value: an average, one with a filter, one of all rows
SELECT s, AVG(n) AS m FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s) GROUP BY s;
SELECT s, MAX(n) FILTER (WHERE n > 1) AS m FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s) GROUP BY s;
SELECT MAX(n) AS m FROM (SELECT COUNT(*) AS n FROM t);
