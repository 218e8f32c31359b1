CREATE TABLE x (id INT, s STRING, p STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/texts.json', 'format' = 'json');
SELECT id, s, CHAR_LENGTH(s), UPPER(s), LOWER(s), REVERSE(s) FROM x;
SELECT id, SUBSTRING(s, 1, 1), SUBSTRING(s, 2, 1), LEFT(s, 3), RIGHT(s, 1) FROM x WHERE id IN (6, 7);
-- differs: a character is never cut in two
SELECT id, LPAD(s, 7, 'é'), RPAD(s, 4, '😀'), POSITION('ü' IN s), POSITION('x' IN s) FROM x WHERE id IN (6, 7);
SELECT id FROM x WHERE s = 'Grüße';
SELECT id FROM x WHERE LOWER(s) = 'grüße';
SELECT id FROM x WHERE UPPER(s) LIKE '%Ü%';
SELECT 'straße', UPPER('straße'), CHAR_LENGTH('日本語'), 'é' = 'é', LOWER('ÀÉÎ'), UPPER('ÿ');
SELECT id, s || '日本' FROM x WHERE s LIKE '%ü%' OR s LIKE '😀%';
SELECT id, TRIM('é' FROM 'éabcé'), REPLACE(s, 'ß', 'ss'), SPLIT_INDEX(s, 'ü', 1) FROM x WHERE id = 6;
