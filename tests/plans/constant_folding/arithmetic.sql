SELECT 1 + 2 * 3 AS x, a + (1 + 1) AS y, LOWER('ABC') AS z, 'a' || 'b' AS w FROM t;
-- an expression that errs is left to the rows that ask for it
SELECT 1 / 0 AS x, CAST('abc' AS INT) AS y FROM t;
SELECT a FROM t WHERE s = UPPER('x') AND CHAR_LENGTH('abc') = 3;
SELECT UUID() AS x FROM t;
SELECT CASE WHEN 1 = 1 THEN a ELSE 0 END AS x, CAST(NULL AS INT) + 1 AS y FROM t;
SELECT CARDINALITY(ARRAY[1, 2]) AS x, MAP['a', 1 + 1]['a'] AS y, ARRAY[1, 2] AS z, ROW(1, 'a') IS NULL AS w, ARRAY[1, a][1] AS q FROM t WHERE ARRAY[1] = ARRAY[2] OR ARRAY_CONTAINS(ARRAY['x', UPPER('y')], 'Y');
