CREATE TABLE z (i INT NOT NULL, x DOUBLE NOT NULL) WITH ('connector' = 'filesystem', 'path' = '${DATA}/known_zeros.json', 'format' = 'json');
SELECT x, AVG(x) AS a, SUM(i) AS s, COUNT(*) AS n FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(x) AS a, AVG(i) AS s, COUNT(*) AS n FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(x) AS a, COUNT(i) AS s, COUNT(*) AS n FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(x) AS a, SUM(i) AS s FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(x) AS a, AVG(i) AS s FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(x) AS a, COUNT(*) AS t FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(DISTINCT x) AS a, COUNT(*) AS t, SUM(DISTINCT i) AS u FROM z WHERE x < 1 GROUP BY x;
SELECT x, AVG(x) AS a, MIN(x) AS t, SUM(i) AS u, COUNT(*) AS n FROM z WHERE x < 1 GROUP BY x;
