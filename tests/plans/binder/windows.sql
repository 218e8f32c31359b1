SELECT k, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS till, COUNT(*) AS n, SUM(v + 1) AS total, SUM(v + 1) AS again, COUNT(v) FILTER (WHERE v > 1) AS many FROM e GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE) HAVING COUNT(*) > 1;
SELECT UPPER(low) AS u, low || 'x' AS l, MAX(v) - MIN(v) AS span FROM e GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), low, UPPER(low);
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '5' MINUTE)) GROUP BY window_start, window_end;
-- window_time has been dropped on the way and is handed on for the aggregate
SELECT ws, COUNT(*) AS n FROM (SELECT window_start AS ws, window_end AS we, v FROM TABLE(TUMBLE(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR)) WHERE v > 1) WHERE v < 9 GROUP BY ws, we;
SELECT window_end, SUM(n) AS n FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k) GROUP BY window_start, window_end;
SELECT TUMBLE_START(rt, INTERVAL '1' DAY) AS d, SUM(n) AS n FROM (SELECT TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS rt, COUNT(*) AS n FROM e GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)) GROUP BY TUMBLE(rt, INTERVAL '1' DAY);
