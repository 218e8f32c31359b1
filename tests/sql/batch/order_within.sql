-- In batch mode, too, an order says nothing of a query that another one takes its rows from, but where it cuts.
CREATE TABLE h (id INT, v INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
-- Views that were made before the mode.
CREATE TEMPORARY VIEW by_value AS SELECT id, v FROM h ORDER BY v, id;
CREATE TEMPORARY VIEW by_time AS SELECT id, v FROM h ORDER BY ts, id;
SET 'execution.runtime-mode' = 'batch';
SELECT * FROM by_value;
SELECT * FROM by_time;
SELECT COUNT(*) AS n FROM by_value;
SELECT id FROM by_value LIMIT 3;
SELECT id FROM by_value ORDER BY id DESC LIMIT 3;
SELECT id FROM (SELECT id, v FROM h ORDER BY v) LIMIT 3;
SELECT id FROM (SELECT id, v FROM h ORDER BY v, id LIMIT 3) WHERE v IS NOT NULL;
SELECT LISTAGG(CAST(id AS STRING)) AS l FROM (SELECT id FROM h WHERE id < 6 ORDER BY id DESC);
WITH o AS (SELECT id FROM h ORDER BY id DESC) SELECT id FROM o LIMIT 2;
CREATE TEMPORARY VIEW descending AS SELECT id, v FROM h ORDER BY id DESC;
SELECT id FROM descending WHERE v > 6;
SELECT LISTAGG(CAST(id AS STRING)) AS l FROM descending WHERE id < 6;
