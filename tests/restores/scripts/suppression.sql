-- Alerts that are held back, by their own time and by the clock, and the functions that say so.
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE timed (k STRING, v INT, ts TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/timed', 'format' = 'json');
CREATE TABLE clocked (k STRING, v INT, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'plain', 'format' = 'json', 'key.fields' = 'k');
SELECT k, v, SUPPRESSED(ts, INTERVAL '2' SECOND, 2) OVER (PARTITION BY k ORDER BY p) FROM e;
SELECT k, v, REACHED(ts, INTERVAL '3' SECOND, 3) OVER (PARTITION BY k ORDER BY ts), SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM e;
SELECT k, v, SUPPRESSED(p, INTERVAL '2' SECOND, 1, CAST(v AS BIGINT)) OVER (ORDER BY p) FROM e;
SET 'rule.suppress' = '2s by k into n';
SET 'rule.threshold' = '2 in 4s by k';
EXECUTE STATEMENT SET BEGIN
INSERT INTO timed (k, v, ts) SELECT k, v, ts FROM e;
INSERT INTO clocked SELECT k, v, 0 FROM e WHERE v > 3;
END;
SET 'rule.limit' = '3/2s';
INSERT INTO clocked (k, v) SELECT k, SUM(v) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;
SET 'rule.limit' = '2/2s by k, then count into n';
RESET 'rule.suppress';
EXECUTE STATEMENT SET BEGIN
INSERT INTO timed (k, v, ts) SELECT k, v, ts FROM e;
INSERT INTO clocked SELECT k, v, 0 FROM e WHERE v > 3;
END;
