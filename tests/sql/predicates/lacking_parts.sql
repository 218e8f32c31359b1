-- A NULL element of an array, or value of a map, equals nothing: not even in the same array. A NULL field of a row equals a NULL field.
CREATE TABLE t (a ARRAY<INT>, b ARRAY<INT>, m MAP<STRING, INT>, n MAP<STRING, INT>, r ROW<p INT, q INT>, s ROW<p INT, q INT>) WITH ('connector' = 'filesystem', 'path' = '${DATA}/lacking_parts.json', 'format' = 'json');
SELECT a = b, a <> b, a IS DISTINCT FROM b, NULLIF(a, b) FROM t;
SELECT a = ARRAY_DISTINCT(a), a <> ARRAY_DISTINCT(a), NULLIF(a, ARRAY_DISTINCT(a)), ARRAY_DISTINCT(a) = a FROM t;
SELECT a = ARRAY_CONCAT(b, b), a = a, a = ARRAY_SLICE(a, 1, 5), NULLIF(ARRAY_DISTINCT(a), ARRAY_DISTINCT(b)) FROM t;
SELECT m = n, m <> n, NULLIF(m, n), m IS DISTINCT FROM n FROM t;
SELECT ARRAY[CAST(NULL AS INT), 2] = ARRAY[CAST(NULL AS INT), 2], ARRAY[1, 2] = ARRAY[1, 2], MAP['x', CAST(NULL AS INT)] = MAP['x', CAST(NULL AS INT)];
SELECT COUNT(*) FROM t WHERE a = b;
-- rowsort
SELECT x.a FROM t x JOIN t y ON x.a = y.b;
SELECT a, COUNT(*) FROM t GROUP BY a;
SELECT a IS NOT DISTINCT FROM b, m IS NOT DISTINCT FROM n FROM t;
SELECT CASE a WHEN b THEN 1 ELSE 0 END FROM t;
SELECT a IN (b), a NOT IN (b), a IN (ARRAY[1, 2], b), a IN (ARRAY[CAST(NULL AS INT), 2]) FROM t;
SELECT ROW(a, 1) = ROW(b, 1), (a, 1) IN ((b, 1)) FROM t;
SELECT COALESCE(NULLIF(a, b), ARRAY[9]) FROM t;
-- rowsort
SELECT x.a, y.b FROM t x JOIN t y ON x.a = y.b AND x.r = y.s;
-- rowsort
SELECT x.a, y.b FROM t x JOIN t y ON x.r = y.s WHERE x.a = y.b;
-- rowsort
SELECT a FROM t WHERE a IN (SELECT b FROM t);
-- rowsort
SELECT a FROM t INTERSECT SELECT b FROM t;
-- rowsort
SELECT DISTINCT a FROM t;
-- rowsort
SELECT COUNT(*) FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE x.a = y.b);
SELECT MAP['x', a] = MAP['x', b] FROM t;
SELECT m = MAP['x', 1], m = MAP['x', CAST(NULL AS INT)] FROM t;
SELECT r = s, r <> s, NULLIF(r, s) FROM t;
SELECT ARRAY[a, b] = ARRAY[b, a], ARRAY[m] = ARRAY[n], a IS DISTINCT FROM a, NULLIF(m, m), a <> a, CASE a WHEN a THEN 1 END FROM t;
