CREATE TABLE doubles (id INT, s STRING, d DOUBLE, f FLOAT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_numbers.json', 'format' = 'debezium-json');
CREATE TABLE decimals (id INT, s STRING, d DOUBLE, f FLOAT, n DECIMAL(4, 2)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_numbers.json', 'format' = 'debezium-json');
SELECT * FROM doubles;
SELECT * FROM decimals;
