CREATE TABLE x (id INT, s STRING, p STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/texts.json', 'format' = 'json');

SELECT id, REGEXP(s, 'a+b'), REGEXP(s, '^a.*b$'), REGEXP(s, '') FROM x;
SELECT id FROM x WHERE REGEXP(s, '(?i)GR.SSE|gr.{3}');
SELECT id FROM x WHERE REGEXP(s, '^\w+$');
SELECT id FROM x WHERE REGEXP(s, '[');
SELECT id, REGEXP(s, p) FROM x;
SELECT id, REGEXP_REPLACE(s, '[aeiou]', '*'), REGEXP_EXTRACT(s, '([a-z])([a-z])', 2) FROM x;
SELECT id, REGEXP_EXTRACT(s, 'x') FROM x;
SELECT id FROM x WHERE REGEXP(s, '\\temp\\');
SELECT id FROM x WHERE REGEXP(s, '^line1$');
SELECT id FROM x WHERE REGEXP(s, '(?m)^line1$');
SELECT id FROM x WHERE REGEXP(s, 'line1.line2');
SELECT id FROM x WHERE s SIMILAR TO 'a(_|x)b';
SELECT id FROM x WHERE s SIMILAR TO '(a|1)%';
SELECT id FROM x WHERE s NOT SIMILAR TO '[a-z]+';
SELECT id FROM x WHERE REGEXP(s, '^(?!a).*$');
SELECT id, REGEXP_COUNT(s, 'a'), REGEXP_INSTR(s, 'b'), REGEXP_SUBSTR(s, 'a.') FROM x;
