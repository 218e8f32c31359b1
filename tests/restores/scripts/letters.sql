-- Rows that cannot be processed and rows that are late go to the dead letters of the same epoch.
SET 'job.on-error' = 'dead-letter';
SET 'job.late-rows' = 'dead-letter';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE broken (id INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/broken.json', 'format' = 'json');
CREATE TABLE ones (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/ones', 'format' = 'json');
CREATE TABLE others (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/others', 'format' = 'csv');
SELECT * FROM broken;
SELECT k, 10 / (v - 5) FROM e;
SELECT k, SUM(10 / (v - 5)), COUNT(*) FROM e GROUP BY k;
SELECT k, COUNT(*), window_end FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
SELECT a.k, a.v FROM e AS a JOIN e AS b ON a.k = b.k AND 10 / (a.v - b.v) > 2;
CREATE TABLE topic_ (k STRING, v INT) WITH ('connector' = 'topic', 'topic' = 'plain', 'format' = 'json', 'key.fields' = 'k');
CREATE TABLE totals (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true');
EXECUTE STATEMENT SET BEGIN
INSERT INTO ones SELECT k, 10 / (v - 8) FROM e;
INSERT INTO others SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO ones SELECT k, v FROM e WHERE k <> 'a';
INSERT INTO topic_ SELECT k, v FROM e WHERE v > 3;
INSERT INTO totals SELECT k, COUNT(*) FROM e WHERE k IS NOT NULL GROUP BY k;
END;
