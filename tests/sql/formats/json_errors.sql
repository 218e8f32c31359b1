CREATE TABLE cut (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/one_broken.json', 'format' = 'json');
SELECT * FROM cut;
CREATE TABLE no_number (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/not_a_number.json', 'format' = 'json');
SELECT * FROM no_number;
CREATE TABLE lenient (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/broken.json', 'format' = 'json', 'json.ignore-parse-errors' = 'true');
SELECT * FROM lenient;
CREATE TABLE lenient_number (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/not_a_number.json', 'format' = 'json', 'json.ignore-parse-errors' = 'true');
SELECT * FROM lenient_number;
CREATE TABLE bo (id INT, b BOOLEAN) WITH ('connector' = 'filesystem', 'path' = '${DATA}/raw_json.json', 'format' = 'json');
SELECT * FROM bo;
CREATE TABLE ints (id INT, i INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/raw_json.json', 'format' = 'json');
SELECT * FROM ints;
SELECT id FROM ints;
CREATE TABLE both_options (id INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json', 'json.ignore-parse-errors' = 'true', 'json.fail-on-missing-field' = 'true');
SELECT * FROM both_options;
CREATE TABLE bad_option (id INT) WITH ('json.no-such-option' = 'true',
    'connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');
-- differs: a misspelt option is refused, not ignored
SELECT * FROM bad_option;
