-- Tables whose records are changes: what they bring, what is written of it, what is read of that again.

CREATE TABLE debezium (id INT, host STRING, load DECIMAL(10, 2), seen TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_debezium.json', 'format' = 'debezium-json');

SELECT * FROM debezium;

SELECT host, COUNT(*), SUM(load) FROM debezium GROUP BY host;

SELECT id, load * 2 FROM debezium WHERE load < 1;

CREATE TABLE debezium_out (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/debezium', 'format' = 'debezium-json');

INSERT INTO debezium_out SELECT id, host, load FROM debezium;

CREATE TABLE debezium_text (record STRING)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/debezium', 'format' = 'raw');

SELECT * FROM debezium_text;

SELECT * FROM debezium_out;

CREATE TABLE canal (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_canal.json', 'format' = 'canal-json');

SELECT * FROM canal;

SELECT host, COUNT(*), SUM(load) FROM canal GROUP BY host;

SELECT id, load * 2 FROM canal WHERE load < 1;

CREATE TABLE canal_out (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/canal', 'format' = 'canal-json');

INSERT INTO canal_out SELECT id, host, load FROM canal;

CREATE TABLE canal_text (record STRING)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/canal', 'format' = 'raw');

SELECT * FROM canal_text;

SELECT * FROM canal_out;

CREATE TABLE maxwell (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_maxwell.json', 'format' = 'maxwell-json');

SELECT * FROM maxwell;

SELECT host, COUNT(*), SUM(load) FROM maxwell GROUP BY host;

SELECT id, load * 2 FROM maxwell WHERE load < 1;

CREATE TABLE maxwell_out (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/maxwell', 'format' = 'maxwell-json');

INSERT INTO maxwell_out SELECT id, host, load FROM maxwell;

CREATE TABLE maxwell_text (record STRING)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/maxwell', 'format' = 'raw');

SELECT * FROM maxwell_text;

SELECT * FROM maxwell_out;

CREATE TABLE ogg (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_ogg.json', 'format' = 'ogg-json');

SELECT * FROM ogg;

SELECT host, COUNT(*), SUM(load) FROM ogg GROUP BY host;

SELECT id, load * 2 FROM ogg WHERE load < 1;

CREATE TABLE ogg_out (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/ogg', 'format' = 'ogg-json');

INSERT INTO ogg_out SELECT id, host, load FROM ogg;

CREATE TABLE ogg_text (record STRING)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/ogg', 'format' = 'raw');

SELECT * FROM ogg_text;

SELECT * FROM ogg_out;

CREATE TABLE nested (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_schema.json', 'format' = 'debezium-json', 'debezium-json.schema-include' = 'true');

SELECT * FROM nested;

CREATE TABLE bad (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_debezium_bad.json', 'format' = 'debezium-json');

SELECT * FROM bad;

CREATE TABLE forgiven (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_debezium_bad.json', 'format' = 'debezium-json', 'debezium-json.ignore-parse-errors' = 'true');

SELECT * FROM forgiven;

CREATE TABLE included (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_canal.json', 'format' = 'canal-json', 'canal-json.database.include' = 'o.s', 'canal-json.table.include' = 'host|hosts');

SELECT * FROM included;

CREATE TABLE short (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/short', 'format' = 'ogg-json', 'ogg-json.encode.ignore-null-fields' = 'true', 'ogg-json.encode.decimal-as-plain-number' = 'true');

INSERT INTO short VALUES (1, CAST(NULL AS STRING), 100);

CREATE TABLE short_text (record STRING)
WITH ('connector' = 'filesystem', 'path' = '${OUT}/short', 'format' = 'raw');

SELECT * FROM short_text;
