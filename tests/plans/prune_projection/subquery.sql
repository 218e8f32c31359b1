SELECT x FROM (SELECT a + 1 AS x, LOWER(s) AS y, b FROM t) WHERE x + x > b;
SELECT y + y AS z FROM (SELECT a + 1 AS x, a * 2 AS y FROM t);
-- what many jobs share keeps all columns
SELECT k FROM e;
SELECT low || low AS l FROM c;
-- results of aggregates that nobody reads
SELECT s FROM (SELECT s, COUNT(*) AS n, MAX(a) AS m FROM t GROUP BY s) WHERE m > 1;
-- each branch of UNION ALL gives what is read
SELECT s FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s UNION ALL SELECT s, b FROM u);
