SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE l (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE r (ts TIMESTAMP(3), k STRING, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/others.json', 'format' = 'json');
CREATE VIEW lw AS SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '10' SECOND));
CREATE VIEW rw AS SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '10' SECOND));
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a LEFT JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a RIGHT JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a FULL JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end;
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a LEFT JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k AND a.v > b.w;
-- rowsort
SELECT a.window_start, a.k, a.v, b.k AS bk, b.w, b.window_end FROM lw a FULL JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k AND b.ok;
-- rowsort
SELECT a.window_start, a.window_end, COUNT(*) AS n, SUM(a.v) AS s FROM lw a JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k GROUP BY a.window_start, a.window_end;
-- rowsort
SELECT a.window_start, a.k, a.n, b.n AS m FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM lw GROUP BY window_start, window_end, k) a JOIN (SELECT window_start, window_end, k, COUNT(*) AS n FROM rw GROUP BY window_start, window_end, k) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.k, a.v, b.w, a.window_start FROM TABLE(HOP(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) a JOIN TABLE(HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.k, a.v, b.w, a.window_start, a.window_end FROM TABLE(CUMULATE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) a JOIN TABLE(CUMULATE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.k, a.v, b.w FROM lw a JOIN TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND)) b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
-- rowsort
SELECT a.k, a.v, b.w FROM lw a JOIN rw b ON a.window_start = b.window_start AND a.k = b.k;
-- rowsort
SELECT * FROM (SELECT a.window_start, a.window_end, a.k, b.w, ROW_NUMBER() OVER (PARTITION BY a.window_start, a.window_end ORDER BY b.w DESC) AS rn FROM lw a JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k) WHERE rn = 1;
-- rowsort
SELECT a.window_start AS ws, a.window_time AS wt, b.window_time AS bt FROM lw a JOIN rw b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k;
