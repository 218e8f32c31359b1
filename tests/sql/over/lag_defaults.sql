-- LAG with a default that is not NULL is of a type without NULL; a NULL in the column is the default then, too.
CREATE TABLE h (id INT, v INT, m DECIMAL(10, 2), k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
-- differs: Flink says that the result is never NULL, and gives -1 where the value is
SELECT id, v, LAG(v, 1, 5) OVER (ORDER BY ts) AS x, LAG(v, 1, 5) OVER (ORDER BY ts) IS NULL AS n FROM h;
-- differs: Flink fails at the first row where the value is NULL
SELECT id, LAG(m, 1, CAST(0.5 AS DECIMAL(10, 2))) OVER (ORDER BY ts) AS x FROM h;
SELECT id, v, LAG(v, 1, NULLIF(5, 5)) OVER (ORDER BY ts) AS x FROM h;
SELECT id, LAG(v, 1, 0) OVER (ORDER BY ts) AS x FROM h WHERE v IS NOT NULL;
