SET 'execution.runtime-mode' = 'batch';
CREATE TABLE r (id INT, g STRING, b BOOLEAN, i INT, l BIGINT, dc DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/ranked.json', 'format' = 'json');
CREATE TABLE t (ts TIMESTAMP(3), sym STRING, px DECIMAL(8, 2), qty INT, side STRING, id INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/trades.json', 'format' = 'json');
CREATE TABLE nt (ts TIMESTAMP(3), sym STRING, px DECIMAL(8, 2), qty INT, side STRING, id INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/trades.json', 'format' = 'json');
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS B.px > A.px);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.id AS a, LAST(B.id) AS b, COUNT(B.id) AS n AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE B AS B.px > A.px, C AS C.px < 10);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts, px MEASURES FIRST(A.id) AS a, LAST(A.id) AS b PATTERN (A{3}) DEFINE A AS TRUE);
-- rowsort
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.id AS a, MATCH_ROWTIME() AS rt PATTERN (A X*? B) WITHIN INTERVAL '4' SECOND DEFINE A AS A.side = 'B', B AS B.side = 'S');
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts, id MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS B.px > A.px);
-- rowsort
SELECT sym, COUNT(*) AS n FROM t MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.id AS a PATTERN (A B) DEFINE B AS B.px > A.px) GROUP BY sym;
-- rowsort
SELECT * FROM nt MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS B.px > A.px);
SELECT * FROM nt MATCH_RECOGNIZE (PARTITION BY sym ORDER BY id MEASURES A.id AS a, B.id AS b PATTERN (A B) DEFINE B AS B.px > A.px);
-- rowsort
SELECT * FROM (SELECT MAX(ts) AS ts, sym, COUNT(*) AS n FROM t GROUP BY sym) MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.n AS a PATTERN (A) DEFINE A AS TRUE);
-- rowsort
SELECT g, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY i DESC, id) AS n FROM r) WHERE n <= 2;
-- rowsort
SELECT g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts DESC, id) AS n FROM r) WHERE n = 1;
-- rowsort
SELECT g, id, n FROM (SELECT *, RANK() OVER (PARTITION BY g ORDER BY i) AS n FROM r) WHERE n <= 2;
-- rowsort
SELECT g, id, n FROM (SELECT *, DENSE_RANK() OVER (PARTITION BY g ORDER BY i) AS n FROM r) WHERE n <= 2;
-- rowsort
SELECT g, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) AS n FROM r) WHERE n >= 3;
-- rowsort
SELECT g, id FROM r QUALIFY RANK() OVER (PARTITION BY g ORDER BY i DESC) = 1;
SELECT id, i FROM r ORDER BY i NULLS LAST, id OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY;
-- rowsort
SELECT g, c, n FROM (SELECT g, c, ROW_NUMBER() OVER (ORDER BY c DESC, g) AS n FROM (SELECT g, COUNT(*) AS c FROM r GROUP BY g)) WHERE n <= 2;
