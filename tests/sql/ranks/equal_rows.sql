CREATE TABLE c (k STRING, a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/equal_changes.json', 'format' = 'debezium-json');
SELECT k, a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM c) WHERE n <= 2;
SELECT k, a, b, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM c) WHERE n <= 3;
SELECT k, a, b, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY a DESC) AS n FROM c) WHERE n <= 2;
SELECT k, b, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM c) WHERE n = 1;
SELECT k, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, a, b ORDER BY a) AS n FROM c) WHERE n <= 2;
SELECT k, a, COUNT(*) AS m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM c) WHERE n <= 2 GROUP BY k, a;
SELECT * FROM c ORDER BY a LIMIT 3;
SELECT b FROM c ORDER BY a LIMIT 3;
SELECT b FROM c ORDER BY b LIMIT 2;
SELECT k, b, COUNT(*) OVER (PARTITION BY k ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM c;
SELECT k, b, ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) AS n FROM c;
-- differs: Flink takes what it has summed of all rows that equal the one that goes, and loses it
SELECT k, b, SUM(a) OVER (PARTITION BY k ORDER BY a) AS n FROM c WHERE k = 'p';
