CREATE TABLE c (
  id INT, a INT, s STRING,
  double_a AS a * 2,
  label AS UPPER(s) || '/' || CAST(id AS STRING),
  m DECIMAL(10, 2),
  gross AS m * 1.19,
  flag AS a > 5 OR s IS NULL
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
SELECT * FROM c;
SELECT id, double_a FROM c WHERE flag;
SELECT gross, label FROM c WHERE double_a > 5;
DESCRIBE c;
CREATE TABLE bad_reference (id INT, x AS nothing + 1) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
CREATE TABLE chained (id INT, x AS id + 1, y AS x + 1) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
SELECT * FROM chained;
CREATE TABLE with_time (ms BIGINT, k STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/instants.json', 'format' = 'json');
SELECT * FROM with_time;
CREATE TABLE later (x AS id * 10, id INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
SELECT * FROM later WHERE id < 4;
INSERT INTO c SELECT 1, 2, 'x', 3, 'y', 4, 5, TRUE;
