-- What real Flink makes of TUMBLE. `expected.jsonl` is its answer, recorded by `pytest -m oracle --update` on the test
-- beside this folder. AVG(i) is not asked for beside SUM(i): Flink then takes both from one sum, which wraps as an INT.
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE events (ts TIMESTAMP(3), k STRING, i INT, b BIGINT, d DOUBLE, m DECIMAL(10, 2), s STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE early (ts TIMESTAMP(3), k STRING, i INT, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = '${DATA}/early.json', 'format' = 'json');
CREATE TABLE instants (ms BIGINT, k STRING, i INT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = '${DATA}/instants.json', 'format' = 'json');
SELECT k, COUNT(*) AS n, COUNT(i) AS ni, SUM(i) AS si, MIN(i) AS li, MAX(i) AS hi, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
SELECT k, COUNT(b) AS n, SUM(b) AS sb, MIN(b) AS lb, MAX(b) AS hb, AVG(b) AS ab, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
SELECT k, COUNT(d) AS n, SUM(d) AS sd, MIN(d) AS ld, MAX(d) AS hd, AVG(d) AS ad, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
SELECT k, COUNT(m) AS n, SUM(m) AS sm, MIN(m) AS lm, MAX(m) AS hm, AVG(m) AS am, MIN(s) AS ls, MAX(s) AS hs, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
SELECT COUNT(*) AS n, SUM(i) AS si, COUNT(*) FILTER (WHERE i > 2) AS nf, SUM(i) FILTER (WHERE i > 2) AS sf, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end, window_time;
SELECT k, COUNT(*) AS n, SUM(i) AS si, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE early, DESCRIPTOR(ts), INTERVAL '7' SECOND)) GROUP BY window_start, window_end, window_time, k;
SELECT k, AVG(i) AS ai, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
SELECT k, AVG(i) AS ai, AVG(b) AS ab, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time, k;
SET 'table.local-time-zone' = 'America/New_York';
SELECT k, COUNT(*) AS n, SUM(i) AS si, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE instants, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, window_time, k;
SELECT k, COUNT(*) AS n, SUM(i) AS si, window_start, window_end, window_time
  FROM TABLE(TUMBLE(TABLE instants, DESCRIPTOR(ts), INTERVAL '3' HOUR)) GROUP BY window_start, window_end, window_time, k;
SELECT ms, i, ts, window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE instants, DESCRIPTOR(ts), INTERVAL '1' HOUR));
SELECT ms, i, CURRENT_WATERMARK(ts) AS w FROM instants;
