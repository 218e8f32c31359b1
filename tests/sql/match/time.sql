SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE t (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
CREATE TABLE p (ts TIMESTAMP(3), k STRING, price INT, tax DECIMAL(8, 2), s STRING, pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ticks.json', 'format' = 'json');
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, MATCH_ROWTIME() AS rt PATTERN (A B+? C) WITHIN INTERVAL '5' SECOND DEFINE A AS A.price > 10, C AS C.price > 19);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c, MATCH_ROWTIME() AS rt AFTER MATCH SKIP PAST LAST ROW PATTERN (A B*? C) WITHIN INTERVAL '8' SECOND DEFINE A AS A.price > 10, C AS (C.price > 20 AND A.price < 13) OR (C.price > 14 AND A.price > 16));
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c, MATCH_ROWTIME() AS rt AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? C) WITHIN INTERVAL '8' SECOND DEFINE A AS A.price > 10, C AS (C.price > 100) OR (C.price > 14 AND A.price > 16));
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c, MATCH_ROWTIME() AS rt AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? C) WITHIN INTERVAL '12' SECOND DEFINE A AS A.price > 10, C AS (C.price > 100) OR (C.price > 14 AND A.price > 16));
-- rowsort
-- differs: MATCH_ROWTIME of what the end of the input makes known is Flink's greatest number, 1.7 million years before Christ; ours is the time at which the match before it was over
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, COUNT(B.price) AS n, C.price AS c, MATCH_ROWTIME() AS rt AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? C) WITHIN INTERVAL '30' SECOND DEFINE A AS A.price > 10, C AS (C.price > 100) OR (C.price > 21 AND A.price < 25));
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES B.price AS b PATTERN (A B) WITHIN INTERVAL '1' SECOND DEFINE B AS B.price > 8);
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES B.price AS b PATTERN (A B) WITHIN INTERVAL '0' SECOND DEFINE B AS B.price > 8);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, MATCH_ROWTIME(ts) AS rt PATTERN (A B) DEFINE A AS A.price > 19);
SELECT TUMBLE_END(rt, INTERVAL '10' SECOND) AS e, COUNT(*) AS n FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a, MATCH_ROWTIME() AS rt PATTERN (A B) DEFINE A AS A.price > 12) GROUP BY TUMBLE(rt, INTERVAL '10' SECOND);
SELECT COUNT(*) AS n FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.price AS a PATTERN (A B) DEFINE B AS B.price > 10) GROUP BY k;
-- rowsort
SELECT * FROM p MATCH_RECOGNIZE (PARTITION BY k ORDER BY pt MEASURES A.price AS a, B.price AS b PATTERN (A B) DEFINE A AS A.price > 12);
-- rowsort
SELECT * FROM p MATCH_RECOGNIZE (PARTITION BY k ORDER BY pt MEASURES A.price AS a, B.price AS b AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) WITHIN INTERVAL '1' HOUR DEFINE A AS A.price > LAST(A.price, 1) OR LAST(A.price, 1) IS NULL);
