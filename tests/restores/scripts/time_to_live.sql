-- State that is forgotten: a day passes now and then.
SET 'table.exec.state.ttl' = '1 h';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(10, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE VIEW counted AS SELECT k, v, COUNT(*) AS n FROM e GROUP BY k, v;
SELECT k, COUNT(*), SUM(w), MIN(v), MAX(w), COUNT(DISTINCT v), LISTAGG(CAST(v AS STRING)), FIRST_VALUE(v) FROM e GROUP BY k;
SELECT k, SUM(n), MAX(v) FROM counted GROUP BY k;
SELECT DISTINCT k, ok FROM e;
SELECT a.k, a.v, b.w FROM e AS a JOIN e AS b ON a.k = b.k AND a.v < b.v;
SELECT a.k, a.n, b.w FROM counted AS a FULL OUTER JOIN e AS b ON a.k = b.k AND a.v = b.v;
SELECT a.k, a.v FROM e AS a WHERE a.k IN (SELECT k FROM counted WHERE n > 1);
SELECT k, v FROM e INTERSECT SELECT k, v FROM e WHERE ok;
SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, w) AS n FROM e) WHERE n <= 2;
SELECT k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, v) AS r FROM counted) WHERE r <= 2;
SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM e) WHERE n = 1;
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts), COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM e;
SELECT k, v, SUM(n) OVER (PARTITION BY k ORDER BY v) FROM counted;
CREATE TABLE latest (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'latest', 'format' = 'json', 'upsert' = 'true');
INSERT INTO latest SELECT k, n FROM counted WHERE k IS NOT NULL ON CONFLICT DO DEDUPLICATE;
SELECT k, v, w, ts FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS v, B.w AS w, B.ts AS ts
AFTER MATCH SKIP PAST LAST ROW PATTERN (A C*? B) DEFINE B AS B.v > A.v);
