SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B* C) DEFINE A AS A.price > 16, B AS B.price < 15, C AS C.price > 14);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B+ C) DEFINE A AS A.price > 15, B AS B.price < 16, C AS C.price < 30);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B+? C) DEFINE A AS A.price > 15, B AS B.price < 16, C AS C.price < 30);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B? C) DEFINE A AS A.price > 15, B AS B.price < 16, C AS C.price > 12);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{2} C) DEFINE A AS A.price > 15, B AS B.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{2,} C) DEFINE A AS A.price > 11, B AS B.price < 17);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{2,}? C) DEFINE A AS A.price > 15, B AS B.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{1,3} C) DEFINE A AS A.price > 11, B AS B.price < 17);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{1,3}? C{1,2}?) DEFINE A AS A.price > 12, B AS B.price < 20, C AS C.price > 9);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{0,2} C) DEFINE A AS A.price > 15, B AS B.price > 16);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c PATTERN (A B{0,2}? C) DEFINE A AS A.price > 15, B AS B.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n PATTERN (A B?) DEFINE A AS A.price > 15, B AS B.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n PATTERN (A B*?) DEFINE A AS A.price > 15, B AS B.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n PATTERN (A+? B{2,3}?) DEFINE A AS A.price > 15, B AS B.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n PATTERN (A+ B{0,2}?) DEFINE A AS A.price > 15, B AS B.price < 15);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, COUNT(C.price) AS c PATTERN (A B* C{0,2}?) DEFINE A AS A.price > 15, B AS B.price < 15, C AS C.price < 19);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS b, C.s AS c PATTERN (A? B* C) DEFINE A AS A.price > 16, B AS B.price < 15, C AS C.price > 14);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS b, FIRST(C.s) AS c PATTERN (A* B{2,} C) DEFINE A AS A.price > 16, B AS B.price < 17, C AS C.price > 14);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS b, FIRST(C.s) AS c PATTERN (A*? B{2,}? C) DEFINE A AS A.price > 13, B AS B.price < 17, C AS C.price > 14);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN ((A B) (C)) DEFINE A AS A.price > 15);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (^ A B $) DEFINE A AS A.price > 15, Z AS Z.price > 3);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+? C) DEFINE A AS A.price > 10, B AS B.price < LAST(B.price, 1) OR LAST(B.price, 1) IS NULL, C AS C.price > LAST(B.price));
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+? C) DEFINE A AS A.price > 10, C AS C.price > LAST(B.price));
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c ONE ROW PER MATCH AFTER MATCH SKIP TO LAST B PATTERN (A B+? C+?) DEFINE A AS A.price > 12, B AS B.price < 20, C AS C.price > 9);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c AFTER MATCH SKIP TO FIRST B PATTERN (A B+? C) DEFINE A AS A.price > 12, B AS B.price < 20, C AS C.price > 14);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c AFTER MATCH SKIP TO B PATTERN (A B+? C) DEFINE A AS A.price > 12, B AS B.price < 20, C AS C.price > 14);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c AFTER MATCH SKIP TO LAST A PATTERN (A{2,}? B C) DEFINE A AS A.price > 12, B AS B.price < 20, C AS C.price > 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a AFTER MATCH SKIP TO FIRST A PATTERN (A B) DEFINE A AS TRUE);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a AFTER MATCH SKIP TO FIRST B PATTERN (A B* C) DEFINE A AS A.price > 15, B AS B.price > 1000);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a AFTER MATCH SKIP TO FIRST B PATTERN (A B* C) DEFINE A AS A.price > 1500, B AS B.price > 1000);
