SET 'pipeline.auto-watermark-interval' = '0';
-- Windows over windows where only the watermark tells: rows of windows that one jump fires come before that jump, so that
-- sessions whose gap they reach exactly still grow.
CREATE TABLE events (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/gaps.json', 'format' = 'json');

CREATE VIEW counted AS
SELECT window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND))
GROUP BY window_start, window_end, window_time;

SELECT window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE counted, DESCRIPTOR(wt), INTERVAL '5' SECOND))
GROUP BY window_start, window_end;

SELECT wt, n, CURRENT_WATERMARK(wt) AS w FROM counted;

SELECT SESSION_START(wt, INTERVAL '5' SECOND) AS s, SUM(n) AS n FROM counted GROUP BY SESSION(wt, INTERVAL '5' SECOND);

SELECT ts, CURRENT_WATERMARK(ts) AS w FROM (
  SELECT ts, COUNT(*) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM events) WHERE n > 0;

SELECT a.ts, CURRENT_WATERMARK(a.ts) AS w FROM events AS a, events AS b
WHERE a.id = b.id AND a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '2' SECOND;

SELECT window_start, window_end, rt, CURRENT_WATERMARK(rt) AS w FROM (
  SELECT window_start, window_end, window_time AS rt, SUM(n) AS n FROM TABLE(SESSION(TABLE counted, DESCRIPTOR(wt), INTERVAL '1' SECOND))
  GROUP BY window_start, window_end, window_time) WHERE n > 0;

SELECT a.ts, b.id, CURRENT_WATERMARK(a.ts) AS w FROM events AS a LEFT JOIN events AS b
ON a.id = b.id + 100 AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts + INTERVAL '3' SECOND;

-- rowsort
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE((
  SELECT b.ts FROM events AS a RIGHT JOIN events AS b
  ON a.id = b.id + 1 AND b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts), DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end;
SET 'table.exec.interval-join.min-cleanup-interval' = '6 s';

SELECT a.ts, b.id, CURRENT_WATERMARK(a.ts) AS w FROM events AS a LEFT JOIN events AS b
ON a.id = b.id + 100 AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts + INTERVAL '3' SECOND;
