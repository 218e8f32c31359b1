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
