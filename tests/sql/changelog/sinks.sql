-- What is written where values do not fit, and which tables take which changes.
CREATE TABLE hosts (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_debezium.json', 'format' = 'debezium-json');
CREATE TABLE plain (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${OUT}/plain', 'format' = 'json');

-- changes into a table of new rows
INSERT INTO plain SELECT * FROM hosts;

CREATE TABLE lengths (a CHAR(3), b VARCHAR(2), n INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/lengths.json', 'format' = 'json');
CREATE TABLE short (a CHAR(3), b VARCHAR(2)) WITH ('connector' = 'filesystem', 'path' = '${OUT}/short', 'format' = 'json');
CREATE TABLE short_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/short', 'format' = 'raw');

INSERT INTO short SELECT a, b FROM lengths;
-- rowsort
SELECT * FROM short_text;

SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';
INSERT INTO short SELECT a, b FROM lengths;
-- rowsort
SELECT * FROM short_text;

SET 'table.exec.sink.type-length-enforcer' = 'ERROR';
CREATE TABLE strict (a CHAR(3), b VARCHAR(2)) WITH ('connector' = 'filesystem', 'path' = '${OUT}/strict', 'format' = 'json');
INSERT INTO strict SELECT a, b FROM lengths;
SET 'table.exec.sink.type-length-enforcer' = 'IGNORE';

CREATE TABLE whole (n INT NOT NULL, b STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/whole', 'format' = 'json');
CREATE TABLE whole_text (line STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/whole', 'format' = 'raw');
CREATE TABLE strict_whole (n INT NOT NULL, b STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/strict_whole', 'format' = 'json');
INSERT INTO strict_whole SELECT n, b FROM lengths;
SET 'table.exec.sink.not-null-enforcer' = 'DROP';
INSERT INTO whole SELECT n, b FROM lengths;
-- rowsort
SELECT * FROM whole_text;

CREATE TABLE keyed (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO keyed SELECT host, COUNT(*) FROM hosts GROUP BY host;

-- another key than that of the query
INSERT INTO keyed SELECT host, CAST(id AS BIGINT) FROM hosts;
INSERT INTO keyed SELECT host, CAST(id AS BIGINT) FROM hosts ON CONFLICT DO DEDUPLICATE;

-- without watermarks
INSERT INTO keyed SELECT host, CAST(id AS BIGINT) FROM hosts ON CONFLICT DO NOTHING;
SET 'table.exec.sink.require-on-conflict' = 'false';
INSERT INTO keyed SELECT host, CAST(id AS BIGINT) FROM hosts;

-- a table that takes whatever comes
SET 'table.exec.sink.require-on-conflict' = 'true';
CREATE TABLE printed (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED) WITH ('connector' = 'print');
INSERT INTO printed SELECT host, COUNT(*) FROM hosts GROUP BY host;
INSERT INTO printed SELECT host, CAST(id AS BIGINT) FROM hosts;
INSERT INTO printed SELECT host, CAST(id AS BIGINT) FROM hosts ON CONFLICT DO DEDUPLICATE;
