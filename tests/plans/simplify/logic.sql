SELECT a FROM t WHERE a = 1 AND TRUE AND (b = 2 AND s = 'x');
SELECT a FROM t WHERE a = 1 OR FALSE OR (b = 2 OR s = 'x');
-- FALSE decides, even beside an error
SELECT a FROM t WHERE 1 / a > 1 AND FALSE;
SELECT a FROM t WHERE a > 1 OR TRUE;
-- x = x is not TRUE where x is NULL
SELECT a FROM t WHERE a = a;
SELECT a FROM t WHERE NOT (NOT (a = 1));
-- x is never distinct from itself, unless it may be an error or another value
SELECT a IS DISTINCT FROM a AS x, s IS NOT DISTINCT FROM s AS y, 1 / a IS DISTINCT FROM 1 / a AS z FROM t;
SELECT (RAND() IS DISTINCT FROM RAND()) AS x, NOT ((a IS DISTINCT FROM a) IS FALSE) AS y FROM t;
SELECT a FROM t WHERE NOT (a = 1) AND NOT (b < 2) AND NOT (s IS NULL);
-- NOT (NaN < 1) is TRUE, NaN >= 1 is not
SELECT a FROM t WHERE NOT (d < 1e0) AND NOT (d = 1e0);
SELECT a FROM t WHERE (a = 1) IS TRUE AND (s LIKE 'x') IS NOT TRUE AND (b = 1) IS TRUE;
SELECT (a = 1) IS TRUE AS x, (b = 1) IS TRUE AS y, (b = 1) IS NOT FALSE AS z FROM t;
SELECT a FROM t WHERE a = 1 AND b = 2 AND a = 1;
SELECT a = 1 AND TRUE AS x, a = 1 AND FALSE AS y FROM t;
-- of a nullable and a decided operand, the type stays
SELECT bo AND bo AS x, bo OR bo AS y FROM t;
SELECT a FROM t WHERE RAND() < 0.5 AND RAND() < 0.5;
