SELECT * FROM (SELECT a, b, s FROM t) WHERE a > 1 AND b > 2 AND s = 'x';
-- above a scan there is nothing to move through
SELECT a FROM t WHERE a > 1 AND b > 2;
-- 'abc' beside a > 1 that is FALSE is no error; in a filter of its own it would be one
SELECT * FROM (SELECT a, b, s FROM t) WHERE CAST(s AS INT) > 1 AND a > 1;
