SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE logs (id INT, svc STRING, lvl STRING, msg STRING, ctx ROW<host STRING, pid INT, k8s ROW<ns STRING, labels MAP<STRING, STRING>>>, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, items ARRAY<ROW<sku STRING, qty INT, price DECIMAL(8, 2)>>, payload STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_logs.json', 'format' = 'json');
SELECT * FROM logs;
SELECT id, ctx.host, ctx.k8s.ns, ctx.k8s.labels['app'] AS app, tags[1] AS t1, CARDINALITY(tags) AS n, attrs['code'] AS code FROM logs;
SELECT id, t.tag FROM logs CROSS JOIN UNNEST(tags) AS t (tag);
SELECT id, tag, pos FROM logs CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);
SELECT id, k, v FROM logs LEFT JOIN UNNEST(attrs) AS t (k, v) ON TRUE;
SELECT id, i.sku, i.qty * i.price AS total FROM logs, UNNEST(items) AS i (sku, qty, price) WHERE i.qty IS NOT NULL;
SELECT sku, SUM(qty) AS q, SUM(qty * price) AS total, COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM logs CROSS JOIN UNNEST(items) AS i (sku, qty, price) GROUP BY sku;
SELECT payload IS JSON OBJECT AS o, payload IS JSON ARRAY AS a, payload IS NOT JSON AS b, COUNT(*) AS n FROM logs GROUP BY payload IS JSON OBJECT, payload IS JSON ARRAY, payload IS NOT JSON;
SELECT svc, COUNT(*) FILTER (WHERE lvl = 'ERROR') AS errors, COUNT(*) FILTER (WHERE lvl = 'WARN') AS warns, COUNT(*) AS n, 1.0 * COUNT(*) FILTER (WHERE lvl = 'ERROR') / COUNT(*) AS rate FROM logs GROUP BY svc;
-- rowsort
SELECT window_start, window_end, svc, COUNT(*) AS n, LISTAGG(lvl) AS lvls FROM TABLE(TUMBLE(TABLE logs, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, svc;
-- rowsort
SELECT window_start, lvl, COUNT(*) AS n, COUNT(DISTINCT svc) AS s FROM TABLE(TUMBLE(TABLE logs, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY GROUPING SETS ((window_start, window_end, lvl), (window_start, window_end));
SELECT id, COALESCE(attrs['code'], 'none') AS code, CASE WHEN attrs['code'] >= '500' THEN 'bad' WHEN attrs['code'] IS NULL THEN 'unknown' ELSE 'ok' END AS verdict FROM logs WHERE attrs IS NOT NULL;
SELECT PARSE_URL('http://x.io' || attrs['path'], 'QUERY', 'x') AS x, id FROM logs WHERE attrs['path'] IS NOT NULL;
SELECT STR_TO_MAP(msg, ' ', '=') AS m, id FROM logs WHERE msg LIKE '%=%';
SELECT svc, COLLECT(lvl) AS ms FROM logs GROUP BY svc;
SELECT svc, ARRAY_AGG(id) AS ids FROM logs WHERE lvl IS NOT NULL GROUP BY svc;
SELECT tag, COUNT(DISTINCT svc) AS svcs FROM logs CROSS JOIN UNNEST(tags) AS t (tag) GROUP BY tag HAVING COUNT(*) > 2;
SELECT id, ARRAY_CONTAINS(tags, 'x') AS x, ARRAY_DISTINCT(tags) AS d, ARRAY_JOIN(tags, '|', '-') AS j, ARRAY_SORT(tags) AS s, ARRAY_MAX(tags) AS m FROM logs;
SELECT id, MAP_KEYS(attrs) AS ks, MAP_VALUES(attrs) AS vs, MAP_ENTRIES(attrs) AS es FROM logs;
SELECT svc, lvl, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY svc, lvl ORDER BY ts) AS rn FROM logs) WHERE rn = 1;
SELECT svc, lvl, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY svc ORDER BY ts DESC) AS rn FROM logs) WHERE rn = 1;
SELECT window_start, svc, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, svc) AS rn FROM (SELECT window_start, window_end, svc, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE logs, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end, svc)) WHERE rn <= 2;
-- rowsort
SELECT svc, window_start, window_end, COUNT(*) AS n, MIN(id) AS f, MAX(id) AS l FROM TABLE(SESSION(TABLE logs PARTITION BY svc, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY svc, window_start, window_end;
SELECT DATE_FORMAT(ts, 'HH:mm') AS m, svc, COUNT(*) AS n FROM logs GROUP BY DATE_FORMAT(ts, 'HH:mm'), svc;
SELECT id, ROW(id, svc) AS r, (id, lvl) AS r2, ARRAY[id, ctx.pid] AS a, MAP['s', svc, 'l', lvl] AS m FROM logs WHERE id < 12;
SELECT ctx.host AS host, ctx.pid, COUNT(*) AS n FROM logs GROUP BY ctx.host, ctx.pid;
SELECT ctx.k8s.labels AS lb, COUNT(*) AS n FROM logs GROUP BY ctx.k8s.labels;
SELECT svc, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE lvl) AS o, JSON_ARRAYAGG(lvl) AS a FROM logs GROUP BY svc;
SELECT JSON_STRING(ctx) AS c, JSON_STRING(items) AS i, JSON_STRING(attrs) AS a FROM logs;
SELECT svc, lvl, COUNT(*) AS n, GROUPING_ID(svc, lvl) AS g FROM logs GROUP BY ROLLUP (svc, lvl);
SELECT * FROM logs MATCH_RECOGNIZE (PARTITION BY svc ORDER BY ts MEASURES FIRST(E.id) AS f, LAST(E.id) AS l, COUNT(E.id) AS n, N.id AS nxt ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (E+ N) DEFINE E AS E.lvl IN ('ERROR', 'WARN'), N AS N.lvl = 'INFO' OR N.lvl IS NULL);
-- rowsort
SELECT svc, ts, AVG(CHAR_LENGTH(msg)) OVER (PARTITION BY svc ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS avg_len FROM logs;
SELECT DISTINCT svc, lvl FROM logs WHERE id > 5;
-- materialized
SELECT lvl FROM logs WHERE svc = 'api' EXCEPT SELECT lvl FROM logs WHERE svc = 'web';
-- materialized
SELECT lvl FROM logs WHERE svc = 'api' INTERSECT ALL SELECT lvl FROM logs WHERE svc = 'web';
SELECT CAST(ctx AS STRING) AS c, CAST(tags AS STRING) AS t, CAST(attrs AS STRING) AS a, CAST(items AS STRING) AS i FROM logs;
