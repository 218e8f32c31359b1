SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, price DESC MEASURES FIRST(price) AS a, LAST(price) AS n, price AS p, FIRST(A.price + 1) AS f, SUM(price) AS su, AVG(A.price) AS av, COUNT(*) AS c AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) DEFINE A AS A.price > 14, B AS price < 15);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(price) AS a, price AS p, LAST(A.price, 1) AS f, FIRST(A.price, 1) AS g, AVG(A.tax) AS av, MIN(A.s) AS c, MAX(A.tax) AS m, COUNT(A.tax) AS ct, SUM(A.price + 1) AS q, SUM(tax) AS st PATTERN (A+ B) DEFINE A AS price > 11, B AS price < 15);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LISTAGG(A.s) AS x, FIRST_VALUE(A.price) AS fv, STDDEV_POP(A.price) AS sd PATTERN (A+ B) DEFINE A AS A.price > 12);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COALESCE(LAST(A.price, 3), -1) AS z, LAST(COALESCE(A.price, 0), 7) AS co, UPPER(A.s) || B.s AS u, CASE WHEN A.price > 15 THEN 'high' ELSE 'low' END AS h, 1 AS one1 PATTERN (A B) DEFINE B AS price > 15);
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS x, A.k AS k, A.k || B.k AS kk, B.ts AS bts, A.ts AS ats PATTERN (A B) DEFINE A AS A.price > 15);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE A AS A.price > LAST(B.price) OR LAST(B.price) IS NULL, B AS B.price < AVG(A.price) + SUM(B.price));
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS x, SUM(price) AS y, LAST(price, 1) AS z, FIRST(B.price, 1) AS w AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE B AS SUM(price) < 60 AND FIRST(price) < 100 AND LAST(price, 1) > 0, C AS COUNT(B.price) > 1);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (A B C) DEFINE B AS COUNT(*) > 1, C AS COUNT(*) > 2 AND COUNT(C.s) = 1);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE B AS FIRST(A.price + 1, 0) < B.price + A.tax AND UPPER(A.s) <> 'X');
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, B.s AS b PATTERN (A B) DEFINE A AS A.price IN (20, 25, 13) OR A.s LIKE 'v%', B AS CASE WHEN A.price > 15 THEN B.s = 'x' ELSE TRUE END);
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE A AS A.price > 1 AND COUNT(B.price) = 0 AND SUM(A.price + A.price) > 35);
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS a PATTERN (A) DEFINE A AS A.price > PREV(A.price, 0) + 0 OR LAST(A.price, 0) > 20);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.price AS b, AVG(A.tax) AS v PATTERN (A+ B) DEFINE A AS AVG(A.tax) < 2.5, B AS B.tax > AVG(A.tax) AND B.s <> LAST(A.s) AND B.ts > FIRST(A.ts));
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(A.price) AS n, SUM(A.price) AS su AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS SUM(A.price) < 50 AND COUNT(A.price) < 5, B AS B.price + SUM(A.price) >= 50 OR MAX(A.price) > B.price OR MIN(A.price) > 30);
-- rowsort
SELECT m.b, m.k FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, B.price AS b PATTERN (A B) DEFINE A AS A.price > 15) AS m WHERE m.a > 17;
-- rowsort
SELECT k, a FROM (SELECT * FROM t WHERE price > 5) MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE A AS A.price > 15);
-- rowsort
SELECT a FROM t AS q MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE A AS A.price > 15) AS m;
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k, s ORDER BY ts MEASURES B.price AS b PATTERN (A B) DEFINE B AS B.price > 8);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES 10 / B.price AS q PATTERN (A B) DEFINE B AS 10 / (B.price - 3) > 1);
