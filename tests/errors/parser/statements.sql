CREATE TABLE t (a INT, a STRING)
--> 1:24: syntax error: column 'a' is declared twice
-->   | CREATE TABLE t (a INT, a STRING)
-->   |                        ^

CREATE TABLE t (a INT,) WITH ('a' = 'b')
--> 1:23: syntax error: unexpected ')'
-->   | CREATE TABLE t (a INT,) WITH ('a' = 'b')
-->   |                       ^
-->   detail: expected a column, WATERMARK or PRIMARY KEY
-->   hint: remove the comma before it

CREATE TABLE t (a INT) WITH ('a' = 'b', 'a' = 'c')
--> 1:41: syntax error: option 'a' is given twice
-->   | CREATE TABLE t (a INT) WITH ('a' = 'b', 'a' = 'c')
-->   |                                         ^^^

CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)
--> 1:49: syntax error: the table has its primary key already
-->   | CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)
-->   |                                                 ^^^^^^^

CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts, WATERMARK FOR ts AS ts)
--> 1:58: syntax error: the table has its watermark already
-->   | CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts, WATERMARK FOR ts AS ts)
-->   |                                                          ^^^^^^^^^

BEGIN STATEMENT SET; SELECT 1; END;
--> 1:22: syntax error: unexpected 'SELECT'
-->   | BEGIN STATEMENT SET; SELECT 1; END;
-->   |                      ^^^^^^
-->   detail: expected INSERT INTO or END

EXECUTE STATEMENT SET BEGIN END;
--> 1:29: syntax error: unexpected 'END'
-->   | EXECUTE STATEMENT SET BEGIN END;
-->   |                             ^^^
-->   detail: a statement set has one INSERT INTO at least

BEGIN STATEMENT SET; INSERT INTO a SELECT 1;
--> 1:45: syntax error: unexpected end of statement
-->   | BEGIN STATEMENT SET; INSERT INTO a SELECT 1;
-->   |                                             ^
-->   detail: expected INSERT INTO or END

INSERT INTO t SELECT 1 extra words
--> 1:30: syntax error: unexpected 'words'
-->   | INSERT INTO t SELECT 1 extra words
-->   |                              ^^^^^
-->   detail: expected end of statement

SET 'a' 'b'
--> 1:9: syntax error: unexpected string 'b'
-->   | SET 'a' 'b'
-->   |         ^^^
-->   detail: expected =

SHOW NOTHING
--> 1:6: syntax error: unexpected 'NOTHING'
-->   | SHOW NOTHING
-->   |      ^^^^^^^
-->   detail: expected TABLES, VIEWS, FUNCTIONS, CATALOGS, DATABASES, JOBS, CURRENT, COLUMNS, CREATE

DROP t
--> 1:6: syntax error: unexpected 't'
-->   | DROP t
-->   |      ^
-->   detail: expected TABLE, VIEW, FUNCTION, CATALOG, DATABASE, MODEL, CONNECTION, MATERIALIZED TABLE
