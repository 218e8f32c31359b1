-- Rows written out: equal field by field, in three-valued logic; different as rows are, in which NULL equals NULL.
CREATE TABLE h (id INT, v INT, k STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT id FROM h WHERE (k, v) IN (('a', 1), ('b', NULL));
SELECT id FROM h WHERE (k, v) NOT IN (('a', 1), ('b', NULL));
SELECT id, (k, v) IN (('a', id), ('b', NULL)), (k, v) NOT IN (('a', id), ('b', NULL)) FROM h;
SELECT id FROM h WHERE (k, v) = ('a', NULL);
SELECT id, ROW(k, v) = ROW('a', NULL) FROM h;
SELECT id, (k, v) <> ('a', NULL), (k, v) <> ('a', CAST(NULL AS INT)), (k, v) <> ('a', 1), NOT ((k, v) = ('a', 1)) FROM h;
SELECT id, ROW(k, v) <> ROW('a', v), (k, v) <> (k, id), ROW(k, ROW(v, id)) <> ROW('a', ROW(1, 1)) FROM h;
SELECT id, (k, v) = ('a', 1), (k, v) IN (('a', 1), ('b', 2)), (k, v) IN (('a', CAST(NULL AS INT)), ('b', 2)) FROM h;
SELECT id, CASE (k, v) WHEN ('a', 1) THEN 1 ELSE 2 END FROM h;
SELECT id, (k, v) IS NOT DISTINCT FROM ('a', 1), ROW(k, ROW(v, id)) = ROW('a', ROW(1, 1)) FROM h;
-- rowsort
SELECT x.id, y.id FROM h x JOIN h y ON (x.k, x.v) = (y.k, y.v);
-- rowsort
SELECT x.id, y.id FROM h x JOIN h y ON x.id < 6 AND y.id < 12 AND (x.k, x.v) <> (y.k, y.v);
SELECT id, r <> ('a', 1), r = ('a', 1), r IN (('a', 1), ('b', 2)) FROM (SELECT id, (k, v) AS r FROM h);
SELECT id, r <> q, r = q FROM (SELECT id, (k, v) AS r, (k, id) AS q FROM h);
-- differs: Flink finds rows distinct only where all of their fields are
SELECT id, (k, v) IS DISTINCT FROM ('a', 1) FROM h;
-- Refused.
SELECT ROW(1, NULL) FROM h;
SELECT id, (k, v) > ('a', 1) FROM h;
SELECT id FROM h WHERE (k, v) IN (VALUES ('a', 1), ('b', NULL));
