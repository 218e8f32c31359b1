SET 'execution.target' = 'spark';
CREATE TABLE events (id BIGINT, host STRING, line STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (rule STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
-- No exchange: the only stage reads, tests all rules and gives the rows to the sinks.
EXPLAIN STATEMENT SET BEGIN
INSERT INTO alerts SELECT 'sudo', id FROM events WHERE line LIKE '%sudo%';
INSERT INTO alerts SELECT 'su', id FROM events WHERE line LIKE '% su %' AND host <> 'a';
INSERT INTO files SELECT id FROM events WHERE host = 'b';
END;
-- The clock of a task is that of its rows alone: behind an exchange it is that of all.
EXPLAIN INSERT INTO files SELECT id FROM events WHERE ts > CURRENT_WATERMARK(ts);
