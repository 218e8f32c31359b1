CREATE TABLE n (id INT, tags ARRAY<STRING>, m MAP<STRING, INT>, r ROW<p INT, q STRING>)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/nested.json', 'format' = 'json');
SELECT * FROM n;
SELECT id, tags FROM n WHERE id > 1;
SELECT id FROM n WHERE tags IS NULL;
SELECT id, r FROM n WHERE r IS NOT NULL;
DESCRIBE n;
