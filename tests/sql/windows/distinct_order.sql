-- Lists of DISTINCT values of windows: in the order of a hash table where Flink aggregates in two steps, else as they came.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE w (id INT, k STRING, s STRING, n INT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/words.json', 'format' = 'json');
SELECT window_start, LISTAGG(DISTINCT s) AS s FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT CAST(id AS STRING)) AS s FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT s, '; ') AS s, LISTAGG(s) AS every_one, COUNT(DISTINCT s) AS c FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, ARRAY_AGG(DISTINCT n) AS n, ARRAY_AGG(DISTINCT b) AS b, ARRAY_AGG(DISTINCT s) AS s, ARRAY_AGG(DISTINCT n > 5) AS t FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, LISTAGG(DISTINCT s) AS s, COLLECT(DISTINCT n) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY k, window_start, window_end;
SELECT window_start, window_end, LISTAGG(DISTINCT s) AS s FROM TABLE(CUMULATE(TABLE w, DESCRIPTOR(ts), INTERVAL '15' SECOND, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
-- rowsort
SELECT k, window_start, window_end, LISTAGG(DISTINCT s, '-') AS s FROM TABLE(CUMULATE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT s) FILTER (WHERE n > 5) AS s, LISTAGG(DISTINCT s) AS every_one FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT s) AS s FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT k) AS k, SUM(c) AS c FROM (SELECT window_start, window_end, window_time, k, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, window_time, k) GROUP BY window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT s) AS s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, id) AS rn FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND))) WHERE rn <= 4 GROUP BY window_start, window_end;
-- As they came: FIRST_VALUE has no two steps, nor have sessions and the windows of GROUP BY; or the setting says so.
SELECT window_start, LISTAGG(DISTINCT s) AS s, FIRST_VALUE(n) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, LISTAGG(DISTINCT s) AS s, JSON_ARRAYAGG(n) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, LISTAGG(DISTINCT s) AS s FROM TABLE(SESSION(TABLE w PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECOND)) GROUP BY k, window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '30' SECOND) AS window_start, LISTAGG(DISTINCT s) AS s FROM w GROUP BY TUMBLE(ts, INTERVAL '30' SECOND);
SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
SELECT window_start, LISTAGG(DISTINCT s) AS s FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
