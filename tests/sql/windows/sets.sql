SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE VIEW sets AS SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, ROLLUP (k);
-- rowsort
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
-- materialized
-- differs: each key has its own sessions, as without GROUPING SETS; Flink forgets the key
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, GROUPING SETS ((k), ());
-- rowsort
SELECT k, n FROM sets;
-- materialized
-- differs: there is a row whose n is 5; above ROLLUP of windows Flink's EXISTS does not find it
SELECT v FROM e WHERE EXISTS (SELECT 1 FROM sets WHERE sets.n = e.v);
-- materialized
-- differs: there is a row whose n is 5; above ROLLUP of windows Flink's NOT EXISTS does not find it
SELECT v FROM e WHERE NOT EXISTS (SELECT 1 FROM sets WHERE sets.n = e.v);
