CREATE TABLE x (id INT, s STRING, p STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/texts.json', 'format' = 'json');

SELECT id, REGEXP(s, 'a+b'), REGEXP(s, '^a.*b$'), REGEXP(s, '') FROM x;
SELECT id FROM x WHERE REGEXP(s, '(?i)GR.SSE|gr.{3}');
SELECT id FROM x WHERE REGEXP(s, '^\w+$');
-- differs: a pattern that cannot be compiled is refused at once; in Flink it matches nothing
SELECT id FROM x WHERE REGEXP(s, '[');
SELECT id, REGEXP(s, '[') FROM x WHERE id < 3;
SELECT id, REGEXP(s, p) FROM x;
SELECT id, REGEXP_REPLACE(s, '[aeiou]', '*'), REGEXP_EXTRACT(s, '([a-z])([a-z])', 2) FROM x;
SELECT id, REGEXP_EXTRACT(s, 'x') FROM x;
SELECT id FROM x WHERE REGEXP(s, '\\temp\\');
SELECT id FROM x WHERE REGEXP(s, '^line1$');
SELECT id FROM x WHERE REGEXP(s, '(?m)^line1$');
SELECT id FROM x WHERE REGEXP(s, 'line1.line2');
SELECT id FROM x WHERE REGEXP(s, '^(?!a).*$');
