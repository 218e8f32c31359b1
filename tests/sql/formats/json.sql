CREATE TABLE j (id INT, i INT, s STRING, b BOOLEAN, d DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/raw_json.json', 'format' = 'json', 'json.ignore-parse-errors' = 'true');
SELECT * FROM j;
SELECT id FROM j WHERE i IS NULL;
CREATE TABLE texts (id STRING, s STRING, d STRING, extra STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/raw_json.json', 'format' = 'json');
SELECT * FROM texts;
CREATE TABLE strict_missing (id INT, nothing STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/raw_json.json', 'format' = 'json', 'json.fail-on-missing-field' = 'true');
SELECT * FROM strict_missing;
CREATE TABLE not_null (id INT NOT NULL, s STRING NOT NULL)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
SELECT * FROM not_null;
CREATE TABLE iso (ts TIMESTAMP(3), k STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/iso.json', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601');
SELECT * FROM iso;
CREATE TABLE sql_ts (ts TIMESTAMP(3), k STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/iso.json', 'format' = 'json');
SELECT * FROM sql_ts;
CREATE TABLE decimals (id INT, m DECIMAL(4, 1), a BIGINT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/more.json', 'format' = 'json');
SELECT * FROM decimals;
CREATE TABLE floats (id BIGINT, d FLOAT, m DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
SELECT * FROM floats;
