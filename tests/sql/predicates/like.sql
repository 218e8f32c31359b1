CREATE TABLE x (id INT, s STRING, p STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/texts.json', 'format' = 'json');

SELECT id, s LIKE 'a_b', s LIKE 'a%', s LIKE '%', s LIKE '', s LIKE '%b' FROM x;
SELECT id, s LIKE p FROM x;
SELECT id, s LIKE 'a!_b' ESCAPE '!', s LIKE '100!%' ESCAPE '!' FROM x;
SELECT id FROM x WHERE s LIKE p ESCAPE '!';
SELECT id, s LIKE 'C:\temp%', s LIKE '%\%', s LIKE '%\x' FROM x;
SELECT id FROM x WHERE s LIKE 'line1%line2';
-- differs: _ is any character, also a line break, as % is any text
SELECT id FROM x WHERE s LIKE 'line1_line2';
SELECT id FROM x WHERE s LIKE 'Gr__e';
SELECT id, s LIKE '_x', s LIKE '__x' FROM x WHERE id = 7;
SELECT id FROM x WHERE s NOT LIKE 'a%';
SELECT id FROM x WHERE NOT (s LIKE 'a%' OR s LIKE '%e');
SELECT id FROM x WHERE s LIKE '%a%a%b%';
SELECT id FROM x WHERE LOWER(s) LIKE 'c:%';
SELECT id FROM x WHERE s LIKE '%e%' OR s LIKE '%x%' OR s LIKE '1%';
SELECT id, s LIKE CAST(NULL AS STRING) FROM x WHERE id < 3;
SELECT id FROM x WHERE s LIKE 'a*b' OR s LIKE 'a.b' OR s LIKE '[a]%';
SELECT id FROM x WHERE s LIKE 'abc' ESCAPE '!!';
SELECT id FROM x WHERE s LIKE 'a!b' ESCAPE '!';
