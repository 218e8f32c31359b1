SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE logins (usr STRING, ip STRING, country STRING, success BOOLEAN, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/sec_logins.json', 'format' = 'json');
CREATE TABLE actions (usr STRING, `action` STRING, size BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/sec_actions.json', 'format' = 'json');

-- rowsort
SELECT usr, window_start, COUNT(*) AS failed, COUNT(DISTINCT ip) AS ips FROM TABLE(HOP(TABLE logins, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)) WHERE NOT success GROUP BY usr, window_start, window_end HAVING COUNT(*) >= 2;
-- rowsort
SELECT usr, ts, COUNT(*) OVER (PARTITION BY usr ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS tries FROM logins WHERE success IS FALSE;
SELECT usr, COUNT(DISTINCT country) AS countries, LISTAGG(DISTINCT country) AS list FROM logins GROUP BY usr HAVING COUNT(DISTINCT country) > 1;
-- materialized
SELECT l.usr, l.country, a.`action` FROM logins AS l JOIN actions AS a ON l.usr = a.usr AND a.ts BETWEEN l.ts AND l.ts + INTERVAL '30' SECOND WHERE l.country <> 'NO' AND a.`action` IN ('delete', 'grant');
-- materialized
SELECT a.usr, a.`action`, a.ts FROM actions AS a WHERE a.usr NOT IN (SELECT usr FROM logins WHERE usr IS NOT NULL AND success);
-- materialized
SELECT usr FROM actions WHERE EXISTS (SELECT * FROM logins WHERE logins.usr = actions.usr AND logins.success IS FALSE);
SELECT usr, ip, REGEXP(ip, '^(10|192\.168)\.') AS inside, SPLIT_INDEX(ip, '.', 0) AS first_part FROM logins WHERE ip NOT LIKE '8.%';
-- rowsort
SELECT usr, ip, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY usr, ip ORDER BY ts) AS n FROM logins) WHERE n = 1;
-- rowsort
SELECT usr, LAG(country) OVER (PARTITION BY usr ORDER BY ts) AS from_country, country, ts FROM logins;
-- rowsort
SELECT * FROM (SELECT usr, country, LAG(country) OVER (PARTITION BY usr ORDER BY ts) AS from_country, ts FROM logins) WHERE country <> from_country;
SELECT SUM(size) AS total_bytes, SUM(size) / 1024 AS kib, MAX(CHAR_LENGTH(`action`)) AS longest FROM actions WHERE size > 100 OR size IS NULL;
-- materialized
SELECT COALESCE(l.usr, a.usr) AS usr, l.n AS logins, a.n AS actions FROM (SELECT usr, COUNT(*) AS n FROM logins GROUP BY usr) AS l FULL JOIN (SELECT usr, COUNT(*) AS n FROM actions GROUP BY usr) AS a ON l.usr = a.usr;
-- rowsort
SELECT * FROM logins MATCH_RECOGNIZE (PARTITION BY usr ORDER BY ts MEASURES FIRST(F.ts) AS first_fail, S.ts AS got_in, COUNT(F.ip) AS fails AFTER MATCH SKIP PAST LAST ROW PATTERN (F{2,} S) WITHIN INTERVAL '5' MINUTE DEFINE F AS F.success = FALSE, S AS S.success = TRUE);
-- materialized
SELECT usr, 'login' AS what, ts FROM logins WHERE country = 'US' UNION ALL SELECT usr, `action`, ts FROM actions WHERE size > 1000;
-- differs: both inputs of a UNION ALL are read; Flink drops all but the first below a window
-- materialized
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT usr, ts FROM logins UNION ALL SELECT usr, ts FROM actions), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
-- materialized
SELECT l.usr, l.window_start, l.n, a.m FROM (SELECT usr, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY usr, window_start, window_end) AS l LEFT JOIN (SELECT usr, window_start, window_end, COUNT(*) AS m FROM TABLE(TUMBLE(TABLE actions, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY usr, window_start, window_end) AS a ON l.usr = a.usr AND l.window_start = a.window_start AND l.window_end = a.window_end;
SELECT country, CAST(SUM(CASE WHEN success THEN 1 ELSE 0 END) AS DOUBLE) / COUNT(*) AS rate FROM logins GROUP BY country;
SELECT usr, MD5(usr) AS hashed, JSON_OBJECT('u' VALUE usr, 'c' VALUE country) AS doc FROM logins WHERE usr = 'eve';
-- rowsort
SELECT usr, country, COUNT(*) AS n FROM logins GROUP BY CUBE (usr, country) HAVING COUNT(*) > 4;
-- materialized
SELECT usr, n FROM (SELECT usr, n, ROW_NUMBER() OVER (ORDER BY n DESC, usr) AS place FROM (SELECT usr, COUNT(*) AS n FROM logins GROUP BY usr)) WHERE place <= 2;
