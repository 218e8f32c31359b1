SELECT * FROM (SELECT * FROM t WHERE a > 1) WHERE b = 2 AND s = 'x';
-- a > 1 may be NULL: the row is dropped below, but NULL AND error would be an error
SELECT * FROM (SELECT * FROM t WHERE a > 1) WHERE CAST(s AS INT) > 1;
-- b > 1 is never NULL
SELECT * FROM (SELECT * FROM t WHERE b > 1) WHERE CAST(s AS INT) > 1;
SELECT * FROM (SELECT * FROM t WHERE RAND() < 0.5) WHERE a > 1;
