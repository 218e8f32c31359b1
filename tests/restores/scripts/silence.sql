-- Sources that fall silent, and what the watermark of the others is then.
SET 'table.exec.source.idle-timeout' = '5 s';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE few (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/early.json', 'format' = 'json');
CREATE VIEW both_ AS SELECT * FROM e UNION ALL SELECT * FROM few;
SELECT k, COUNT(*), window_end FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
SELECT k, COUNT(*), window_end FROM TABLE(HOP(TABLE both_, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end;
SELECT k, COUNT(*), window_end FROM TABLE(SESSION(TABLE both_ PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end;
SELECT e.k, e.v, few.v, CURRENT_WATERMARK(e.ts) FROM e LEFT JOIN few ON e.k = few.k AND e.ts BETWEEN few.ts - INTERVAL '5' SECOND AND few.ts;
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM both_;
SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM both_) WHERE n = 1;
SELECT k, v FROM both_ ORDER BY ts, v;
