SELECT t.a, u.s FROM t, u WHERE t.b = u.b AND t.a > 1 AND u.s = 'x';
SELECT t.a, u.s FROM t LEFT JOIN u ON t.b = u.b AND u.s = 'x' AND t.a > 1 WHERE t.d > 0;
-- a row that is there only because the left side is kept has no u.s
SELECT t.a, u.b FROM t LEFT JOIN u ON t.a = u.a WHERE u.s LIKE 'x%';
SELECT t.a, u.b FROM t FULL JOIN u ON t.a = u.a WHERE u.s IS NULL;
SELECT t.a, u.b FROM t FULL JOIN u ON t.a = u.a WHERE t.s <> '';
-- what can fail sees no other rows than before
SELECT t.a, u.b FROM t JOIN u ON t.a = u.a WHERE CAST(t.s AS INT) = 1 AND u.a > 1;
-- FALSE is equal to FALSE also where u.a is NULL, but no sum with it is more than 1
SELECT t.a, u.b FROM t LEFT JOIN u ON t.a = u.a WHERE (t.a = 1 AND u.a = 2) = FALSE;
SELECT t.a, u.b FROM t LEFT JOIN u ON t.a = u.a WHERE NOT (t.a + u.a > 1);
