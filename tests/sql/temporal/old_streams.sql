SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE o (id INT, ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/old_times.json', 'format' = 'json');
SELECT id, ts, CURRENT_WATERMARK(ts) AS w FROM o;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE o, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE o, DESCRIPTOR(ts), INTERVAL '4' SECOND)) GROUP BY window_start, window_end;
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, COUNT(*) AS n FROM o GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
SELECT id, COUNT(*) OVER (PARTITION BY k ORDER BY ts) AS n FROM o;
SELECT id, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS n FROM o;
SELECT id, ts FROM o ORDER BY ts;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM o) WHERE n = 1;
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM o) WHERE n = 1;
SELECT * FROM o MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.id AS a, B.id AS b AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.v > 1, B AS B.v <= A.v) AS m;
-- rowsort
-- differs: Flink's interval join begins at 1970 and finds no row before it again
SELECT a.id, b.id AS o FROM o AS a JOIN o AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '3' SECOND AND b.ts + INTERVAL '2' SECOND;
