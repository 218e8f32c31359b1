SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (id INT, lvl STRING, svc STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_logs.json', 'format' = 'json');
CREATE VIEW o AS SELECT svc, ts, id, COUNT(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS n FROM e;
CREATE VIEW p AS SELECT svc, ts, id, COUNT(*) OVER (PARTITION BY svc ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS n FROM e;
SELECT window_start, window_end, COUNT(*) AS c, SUM(n) AS s FROM TABLE(CUMULATE(TABLE o, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS c, SUM(n) AS s FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS c, SUM(n) AS s FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
