SELECT AVG(a) AS m, SUM(a) AS t, COUNT(a) AS n FROM t;
SELECT AVG(b) AS m, SUM(b) AS t, COUNT(*) AS n FROM t;
SELECT SUM(a) AS t, VAR_POP(d) AS v FROM t;
-- as many calls as before
SELECT AVG(a) AS m, SUM(a) AS t FROM t;
SELECT AVG(a) AS m, SUM(a) AS t, COUNT(a) AS n, AVG(b) AS x FROM t;
-- of the three one is read
SELECT m FROM (SELECT AVG(a) AS m, SUM(a) AS t, COUNT(a) AS n FROM t);
