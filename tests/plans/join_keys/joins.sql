SELECT t.a, u.s FROM t JOIN u ON LOWER(t.s) = u.s;
SELECT t.a, u.s FROM t LEFT JOIN u ON t.a = u.b AND t.d > u.d;
-- NULL meets NULL
SELECT t.a, u.s FROM t JOIN u ON t.s = u.s OR (t.s IS NULL AND u.s IS NULL);
SELECT t.a FROM t JOIN u ON t.a + u.a = 3;
SELECT t.a FROM t JOIN u ON t.b = u.b;
