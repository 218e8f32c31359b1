SELECT x + 1 AS y, s FROM (SELECT a * 2 AS x, s FROM t);
-- computed twice when merged
SELECT x + x AS y FROM (SELECT a * 2 AS x FROM t);
SELECT x + x AS y FROM (SELECT a AS x FROM t);
INSERT INTO sink SELECT a, s, s FROM t;
SELECT k AS a, k AS b FROM (SELECT RAND() AS k FROM t);
SELECT * FROM (SELECT a, s FROM (SELECT a, s FROM (SELECT * FROM t)));
