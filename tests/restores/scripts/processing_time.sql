-- What goes by the time at which rows come, and by chance: both are in the epoch's record.
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE d (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
SELECT k, v, p, RAND(), RAND_INTEGER(100), UUID(), NOW(), CURRENT_DATE FROM e;
SELECT k, COUNT(*), window_end FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(p), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end;
SELECT k, COUNT(*), window_end FROM TABLE(HOP(TABLE e, DESCRIPTOR(p), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end;
SELECT k, COUNT(*), window_end FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(p), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end;
SELECT k, COUNT(*), window_end FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(p), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end;
SELECT k, COUNT(*), SESSION_START(p, INTERVAL '3' SECOND) FROM e GROUP BY k, SESSION(p, INTERVAL '3' SECOND);
SELECT * FROM (SELECT k, v, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS n
FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(p), INTERVAL '4' SECOND))) WHERE n <= 2;
SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM e) WHERE n = 1;
SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p DESC) AS n FROM e) WHERE n = 1;
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY p), COUNT(*) OVER (PARTITION BY k ORDER BY p ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM e;
SELECT k, v, COUNT(*) OVER (PARTITION BY k ORDER BY p RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) FROM e;
SELECT a.k, a.v, b.v FROM e AS a JOIN e AS b ON a.k = b.k AND a.p BETWEEN b.p - INTERVAL '3' SECOND AND b.p + INTERVAL '1' SECOND;
SELECT e.k, e.v, d.v FROM e LEFT JOIN d FOR SYSTEM_TIME AS OF e.p ON e.k = d.k;
SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY p MEASURES A.v AS a, LAST(B.v) AS b, MATCH_PROCTIME() AS t
AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) WITHIN INTERVAL '6' SECOND DEFINE B AS B.v >= A.v, C AS C.v < A.v OR C.v > 6);
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '2 s';
SET 'table.exec.emit.late-fire.enabled' = 'true';
SET 'table.exec.emit.late-fire.delay' = '3 s';
SET 'table.exec.emit.allow-lateness' = '1 min';
SELECT k, TUMBLE_END(ts, INTERVAL '5' SECOND), COUNT(*), SUM(v) FROM e GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND);
SELECT k, HOP_END(ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND), COUNT(*) FROM e GROUP BY k, HOP(ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND);
