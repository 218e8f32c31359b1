CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT id, UPPER(s), LOWER(s), CHAR_LENGTH(s), CHARACTER_LENGTH(s) FROM t;
SELECT id, s || '!', '[' || s || ']', CONCAT(s, '-', s), CONCAT_WS('/', s, 'x', CAST(NULL AS STRING)) FROM t;
SELECT id, SUBSTRING(s, 2), SUBSTRING(s FROM 2 FOR 2), SUBSTR(s, 1, 3), SUBSTRING(s, -2), SUBSTRING(s, 0) FROM t;
SELECT id, TRIM(s), LTRIM(s), RTRIM(s), BTRIM(s), TRIM(LEADING ' ' FROM s), TRIM(BOTH 'e' FROM s) FROM t;
SELECT id, POSITION('a' IN s), INSTR(s, 'l'), LOCATE('p', s), REPLACE(s, 'p', 'PP') FROM t;
SELECT id, LEFT(s, 2), RIGHT(s, 2), REVERSE(s), REPEAT(s, 2) FROM t;
SELECT id, LPAD(s, 8, '*'), RPAD(s, 3, '*') FROM t WHERE id <> 6;
SELECT id, SPLIT_INDEX(s, 'l', 1), SPLIT_INDEX(s, 'l', 0) FROM t;
SELECT id, MD5(s), SHA1(s), SHA256('abc') FROM t WHERE id IN (1, 3, 4);
SELECT id, s = 'apple', s <> 'apple', s < 'b', s >= 'É' FROM t;
SELECT id, STARTSWITH(s, 'a'), ENDSWITH(s, 'e') FROM t;
SELECT id, INITCAP(s), INITCAP('hello wORLD') FROM t;
SELECT id, 'a' || CAST(NULL AS STRING), CHAR_LENGTH('') FROM t WHERE id = 1;
SELECT id, CAST(s AS CHAR(3)), CAST(s AS VARCHAR(3)), CAST(s AS CHAR(12)) || '|' FROM t;
SELECT ELT(0, 'a', 'b'), ELT(3, 'a', 'b'), ELT(x - 2, 'a') FROM (VALUES (1), (3)) AS t (x);
SELECT ELT(-1, 'a', 'b');
