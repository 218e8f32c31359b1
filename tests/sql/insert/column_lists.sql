CREATE TABLE o (id INT, s STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/o', 'format' = 'json');
INSERT INTO o (n, id) VALUES (5, 1);
SELECT * FROM o;
INSERT INTO o (s) VALUES ('x');
-- rowsort
SELECT * FROM o;
INSERT INTO o (nothing) VALUES (1);
INSERT INTO o (id, id) VALUES (1, 2);
INSERT INTO o (id) VALUES (1, 2);
INSERT INTO o VALUES (1, 'a');
CREATE TABLE strict (id INT NOT NULL, s STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/strict', 'format' = 'json');
INSERT INTO strict (s) VALUES ('x');
INSERT INTO strict VALUES (CAST(NULL AS INT), 'x');
INSERT INTO strict VALUES (1, 'fine');
SELECT * FROM strict;
