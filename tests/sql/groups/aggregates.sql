SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SELECT k, COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, AVG(v) AS av FROM e GROUP BY k;
SELECT COUNT(*) AS n, SUM(w) AS s, AVG(w) AS a, MAX(k) AS k FROM e;
SELECT ok, v % 2 AS parity, COUNT(*) AS n FROM e GROUP BY ok, v % 2;
SELECT k, SUM(v) AS s FROM e GROUP BY k HAVING SUM(v) > 2;
SELECT k, COUNT(DISTINCT v) AS dv, SUM(DISTINCT v) AS sv, COUNT(*) FILTER (WHERE ok) AS good FROM e GROUP BY k;
SELECT ts, COUNT(*) AS n FROM e GROUP BY ts;
SELECT DISTINCT k FROM e;
SELECT DISTINCT k, ok FROM e WHERE v IS NOT NULL;
SELECT n, COUNT(*) AS times FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k) GROUP BY n;
SELECT COUNT(*) AS keys1, SUM(n) AS total FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k);
SELECT UPPER(k) AS u, MIN(w) AS m FROM e GROUP BY UPPER(k);
SELECT COUNT(*) AS n FROM e WHERE v > 1000;
SELECT k, 'x' AS c, COUNT(*) + 1 AS n FROM e GROUP BY k, 'x';
SELECT k FROM e GROUP BY k;
SELECT 1 AS one1 FROM e HAVING COUNT(*) > 3;
SELECT n, SUM(DISTINCT s) AS s, MAX(s + 1) AS m FROM (SELECT COUNT(*) AS n, SUM(v) AS s FROM e) GROUP BY n;
