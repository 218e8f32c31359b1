SET 'execution.runtime-mode' = 'batch';
CREATE TABLE o (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/o1', 'format' = 'json');
-- rowsort
INSERT OVERWRITE o VALUES (1, 'x'), (2, 'y');
-- rowsort
SELECT * FROM o;
INSERT OVERWRITE o SELECT a + 10, b FROM o;
-- rowsort
SELECT * FROM o;
INSERT INTO o VALUES (3, 'z');
-- rowsort
SELECT * FROM o;
INSERT OVERWRITE o SELECT a, b FROM o WHERE a > 1000;
SELECT * FROM o;
INSERT INTO o VALUES (4, 'w');
INSERT OVERWRITE o SELECT CAST(b AS INT), b FROM (VALUES (1, 'x')) AS v (a, b);
SELECT * FROM o;
INSERT OVERWRITE o (a) VALUES (7);
SELECT * FROM o;
CREATE TABLE p (a INT) WITH ('connector' = 'print');
INSERT OVERWRITE p VALUES (1);
CREATE TABLE bh (a INT, r ROW<x INT, y STRING>) WITH ('connector' = 'blackhole');
INSERT OVERWRITE bh (a) VALUES (1);
EXECUTE STATEMENT SET BEGIN INSERT OVERWRITE o SELECT 1, 'a'; INSERT OVERWRITE o SELECT 2, 'b'; END;
-- rowsort
SELECT * FROM o;
CREATE TABLE lines (t STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/o1', 'format' = 'raw');
INSERT OVERWRITE lines VALUES ('one'), ('two');
-- rowsort
SELECT * FROM lines;
