CREATE TABLE events (id BIGINT, host STRING, amount INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE others (id BIGINT, word STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'others', 'format' = 'json');
CREATE TABLE changing (id BIGINT, word STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'changing', 'format' = 'json', 'upsert' = 'true');

SELECT host, COUNT(*), SUM(amount), MIN(amount), AVG(amount), COUNT(DISTINCT id), LISTAGG(host) FROM events GROUP BY host;
SELECT word, MAX(id), FIRST_VALUE(id) FROM changing GROUP BY word;
SELECT /*+ STATE_TTL('events' = '1d') */ host, COUNT(*) FROM events GROUP BY host;
SELECT window_start, host, COUNT(*), MAX(amount) FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end, host;
SELECT window_start, COUNT(*) FROM HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE) GROUP BY window_start, window_end;
SELECT host, COUNT(*) FROM events GROUP BY host, SESSION(ts, INTERVAL '1' MINUTE);
SELECT e.id, o.word FROM events e JOIN others o ON e.id = o.id;
SELECT e.id, o.word FROM events e LEFT JOIN changing o ON e.id = o.id;
SELECT host FROM events WHERE id IN (SELECT id FROM others);
SELECT e.id, o.word FROM events e JOIN others o ON e.id = o.id AND e.ts BETWEEN o.ts - INTERVAL '1' MINUTE AND o.ts;
SELECT e.id, c.word FROM events e JOIN changing FOR SYSTEM_TIME AS OF e.ts AS c ON e.id = c.id;
SELECT id, SUM(amount) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM events;
SELECT id, SUM(amount) OVER (PARTITION BY host ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) FROM events;
SELECT id, COUNT(*) OVER (PARTITION BY host ORDER BY pt) FROM events;
SELECT id, n FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY amount DESC) AS n FROM events) WHERE n <= 3;
SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY pt) AS n FROM events) WHERE n = 1;
SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY ts DESC) AS n FROM events) WHERE n = 1;
SELECT word, n FROM (SELECT word, n, ROW_NUMBER() OVER (ORDER BY n DESC) AS r FROM (SELECT word, COUNT(*) AS n FROM others GROUP BY word)) WHERE r <= 3;
SELECT n, k FROM (SELECT n, k, ROW_NUMBER() OVER (ORDER BY k) AS r FROM (SELECT word, COUNT(*) AS n, MAX(id) AS k FROM others GROUP BY word)) WHERE r <= 2;
SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY amount) AS n FROM events) WHERE n <= id;
SELECT id FROM (SELECT id, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY amount) AS n FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) WHERE n <= 2;
SELECT id FROM events ORDER BY ts;
SELECT host FROM events INTERSECT SELECT word FROM others;
SELECT id, ts FROM events UNION ALL SELECT id, ts FROM others;
SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY host ORDER BY ts MEASURES A.id AS a, LAST(B.id) AS b ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE A AS A.amount > 1, B AS B.amount > A.amount, C AS C.amount < 0);
