CREATE TABLE people (id INT, name STRING, age INT, born DATE, alive BOOLEAN)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/people.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
SELECT * FROM people;
SELECT name FROM people WHERE age > 30;
CREATE TABLE semi (id INT, s STRING, d DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/semicolons.csv', 'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.quote-character' = '''', 'csv.null-literal' = 'NULL', 'csv.allow-comments' = 'true', 'csv.escape-character' = '\');
SELECT * FROM semi;
CREATE TABLE lenient (id INT, n INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/broken.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
SELECT * FROM lenient;
CREATE TABLE fails (id INT, n INT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/broken.csv', 'format' = 'csv');
SELECT * FROM fails;
CREATE TABLE texts (id STRING, n STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/semicolons.csv', 'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.disable-quote-character' = 'true', 'csv.ignore-parse-errors' = 'true');
SELECT * FROM texts;
