SELECT * FROM (SELECT a + 1 AS x, s FROM t) WHERE s = 'x';
SELECT * FROM (SELECT a + 1 AS x, s FROM t) WHERE x > 1;
SELECT * FROM v WHERE low LIKE '%x%' AND b1 > 2;
-- rows that a random column has been given stay with it
SELECT * FROM (SELECT a, RAND() AS r FROM t) WHERE r < 0.5 AND a > 1;
SELECT * FROM t WHERE a > 1;
