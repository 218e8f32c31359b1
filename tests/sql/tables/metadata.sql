CREATE TABLE f (
  id INT, s STRING,
  file_name STRING NOT NULL METADATA FROM 'file.name' VIRTUAL,
  size_in_bytes BIGINT METADATA FROM 'file.size' VIRTUAL
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
SELECT * FROM f;
SELECT file_name, id FROM f WHERE file_name = 'more.json' AND id > 100;
CREATE TABLE p (id INT, `file.path` STRING NOT NULL METADATA VIRTUAL) WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
SELECT * FROM p;
CREATE TABLE unknown_key (id INT, x STRING METADATA FROM 'nothing') WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
SELECT * FROM unknown_key;
DESCRIBE f;
SELECT UPPER(file_name) AS up, size_in_bytes + id AS total FROM f;
