-- What SELECT calls by a name, ORDER BY calls so, too: of a Top-N over a stream.
CREATE TEMPORARY VIEW d AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, 'c'), (5, 'b'), (6, 'a')) AS t (i, s);
-- materialized
SELECT i AS k, -i AS i FROM d ORDER BY -i LIMIT 2;
-- materialized
SELECT i AS x FROM d ORDER BY x * -1 LIMIT 2;
-- materialized
SELECT s, COUNT(*) AS n FROM d GROUP BY s ORDER BY n * 10 + CHAR_LENGTH(s) LIMIT 1;
-- materialized
SELECT DISTINCT MOD(i, 3) AS m FROM d ORDER BY -m LIMIT 2;
-- materialized
SELECT i AS m FROM d UNION ALL SELECT -i FROM d ORDER BY ABS(m), m LIMIT 3;
-- materialized
SELECT i AS m FROM d UNION SELECT -i FROM d ORDER BY -m LIMIT 3;
SELECT i AS a, -i AS a FROM d ORDER BY a LIMIT 2;
SELECT DISTINCT s FROM d ORDER BY i + 1 LIMIT 2;
