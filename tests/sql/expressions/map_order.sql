CREATE TABLE m (id INT, a MAP<STRING, STRING>, b MAP<STRING, INT>, n MAP<STRING, MAP<STRING, STRING>>, c ARRAY<MAP<STRING,INT>>) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_maps.json', 'format' = 'json');
SELECT id, MAP_KEYS(a) AS k, MAP_VALUES(a) AS v, CAST(a AS STRING) AS s, MAP_ENTRIES(b) AS e, a, b, n, c FROM m;
SELECT id, k, v FROM m, UNNEST(a) AS t (k, v);
-- materialized
SELECT id, MAP_UNION(a, MAP['zeta', 'z', 'alpha', 'a']) AS u, MAP_KEYS(MAP_UNION(a, MAP['zeta', 'z', 'alpha', 'a'])) AS uk FROM m;
SELECT MAP_KEYS(STR_TO_MAP('b=1,a=2,user=ann,action=login,zz=1')) AS k, CAST(STR_TO_MAP('b=1,a=2,user=ann,action=login,zz=1') AS STRING) AS s, MAP_KEYS(MAP_FROM_ARRAYS(ARRAY['user', 'action', 'b'], ARRAY[1, 2, 3])) AS f, MAP_KEYS(MAP['user', 1, 'action', 2]) AS g FROM m;
SELECT JSON_STRING(a) AS j, JSON_OBJECT('a' VALUE a) AS o FROM m;
SELECT COLLECT(id) AS i, CAST(COLLECT(a['host']) AS STRING) AS s, COLLECT(a['host']) AS h FROM m;
SELECT id, k, COUNT(*) AS n FROM m, UNNEST(a) AS t (k, v) GROUP BY id, k;
SELECT MAP_ENTRIES(a)[1] AS first_entry, MAP_KEYS(a)[1] AS k1 FROM m;
SELECT CAST(n AS STRING) AS n, CAST(c AS STRING) AS c FROM m;
-- materialized
SELECT MAP_KEYS(MAP_UNION(MAP['a', 1, 'b', 2], MAP['c', 3, 'a', 4], MAP['d', 5, 'b', 6])) AS k, MAP_VALUES(MAP_UNION(MAP['a', 1, 'b', 2], MAP['c', 3, 'a', 4], MAP['d', 5, 'b', 6])) AS v FROM m WHERE id = 1;
CREATE TABLE logs (id INT, msg STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_logs.json', 'format' = 'json');
SELECT MAP[1.5, 'a', 2.25, 'b', 10.75, 'c', -3.00, 'd', 0.01, 'e'], MAP[DATE '2024-01-01', 1, DATE '2023-05-06', 2, DATE '1999-12-31', 3], MAP[1E0, 1, 2E0, 2, 0.5E0, 3, -7E0, 4], MAP[TIME '01:02:03', 1, TIME '23:00:00', 2], MAP[CAST(1.5 AS FLOAT), 1, CAST(-2 AS FLOAT), 2, CAST(0.1 AS FLOAT), 3];
SELECT MAP[TIMESTAMP '2024-01-01 01:02:03.5', 1, TIMESTAMP '2023-05-06 00:00:00', 2, TIMESTAMP '1969-12-31 23:59:59', 3];
