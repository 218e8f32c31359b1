-- Keys of all types, and of two types that have one in common.
CREATE TABLE l (id INT, i INT, l BIGINT, f FLOAT, d DOUBLE, e DECIMAL(10, 2), s STRING, c CHAR(3), b BOOLEAN, y DATE, t TIME(0), ts TIMESTAMP(3), tz TIMESTAMP_LTZ(3), ar ARRAY<INT>, r ROW<a INT, b STRING>, bin BYTES, m MAP<STRING, INT>) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_keys_l.json', 'format' = 'json', 'json.timestamp-format.standard' = 'SQL');
CREATE TABLE r (id INT, i SMALLINT, l BIGINT, f FLOAT, d DOUBLE, e DECIMAL(12, 4), s VARCHAR(10), c CHAR(3), b BOOLEAN, y DATE, t TIME(0), ts TIMESTAMP(6), tz TIMESTAMP_LTZ(6), ar ARRAY<INT>, r ROW<a INT, b STRING>, bin BYTES, m MAP<STRING, INT>) WITH ('connector' = 'filesystem', 'path' = '${DATA}/j_keys_r.json', 'format' = 'json', 'json.timestamp-format.standard' = 'SQL');

-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.l = r.l;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.l IS NOT DISTINCT FROM r.l;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.s = r.s;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.s IS NOT DISTINCT FROM r.s;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.c IS NOT DISTINCT FROM r.c;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.b = r.b;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.y = r.y;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.y IS NOT DISTINCT FROM r.y;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.t IS NOT DISTINCT FROM r.t;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.ts = r.ts;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.ar = r.ar;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.ar IS NOT DISTINCT FROM r.ar;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.r IS NOT DISTINCT FROM r.r;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.bin = r.bin;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.m = r.m;
-- materialized
SELECT l.id, r.id FROM l FULL JOIN r ON l.m IS NOT DISTINCT FROM r.m;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.i = r.f;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.i = r.d;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.l = r.e;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.e = r.d;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.c = r.s;
SELECT l.id, r.id FROM l LEFT JOIN r ON l.s = r.i;
SELECT l.id, r.id FROM l LEFT JOIN r ON l.ts = r.y;
SELECT l.id, r.id FROM l LEFT JOIN r ON l.y = r.ts;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.tz = r.ts;
SELECT l.id, r.id FROM l LEFT JOIN r ON l.b = r.i;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON CAST(l.y AS STRING) = CAST(r.y AS STRING);
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.r.a = r.i;
-- materialized
SELECT l.id, r.id FROM l LEFT JOIN r ON l.m['u'] = r.i;
-- materialized
SELECT l.id, r.id FROM l JOIN r ON l.r = ROW(r.i, r.s);
-- materialized
SELECT l.id FROM l WHERE l.i IN (SELECT e FROM r);
-- materialized
SELECT l.id FROM l WHERE l.i IN (SELECT d FROM r);
-- materialized
SELECT l.id FROM l WHERE l.s IN (SELECT c FROM r);
-- materialized
SELECT l.id FROM l WHERE l.c IN (SELECT s FROM r);
SELECT l.id FROM l WHERE l.ts IN (SELECT y FROM r);
-- materialized
SELECT l.id FROM l WHERE l.f NOT IN (SELECT f FROM r WHERE f IS NOT NULL);
-- materialized
SELECT l.id FROM l WHERE l.ar IN (SELECT ar FROM r);
-- materialized
SELECT e FROM l UNION SELECT e FROM r;
-- materialized
SELECT c FROM l INTERSECT SELECT c FROM r;
-- materialized
SELECT ar FROM l INTERSECT SELECT ar FROM r;
-- materialized
SELECT r FROM l UNION SELECT r FROM r;
-- materialized
SELECT ts FROM l UNION SELECT ts FROM r;
SELECT ts FROM l UNION ALL SELECT y FROM r;
-- materialized
SELECT * FROM l NATURAL JOIN r;
-- materialized
SELECT i, e FROM l FULL JOIN r USING (i, e);
-- materialized
SELECT s, c FROM l LEFT JOIN r USING (s, c);
