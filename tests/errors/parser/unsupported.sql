ALTER TABLE t RENAME TO u
--> 1:1: not supported: ALTER is not supported
-->   | ALTER TABLE t RENAME TO u
-->   | ^^^^^
-->   hint: drop the object and create it again, or submit a new version of the job

UPDATE t SET a = 1
--> 1:1: not supported: UPDATE is not supported
-->   | UPDATE t SET a = 1
-->   | ^^^^^^
-->   hint: streams only append: write a new row with INSERT INTO

DELETE FROM t
--> 1:1: not supported: DELETE is not supported
-->   | DELETE FROM t
-->   | ^^^^^^
-->   hint: streams only append: write a new row with INSERT INTO

CREATE CATALOG c WITH ('a' = 'b')
--> 1:8: not supported: CREATE CATALOG is not supported
-->   | CREATE CATALOG c WITH ('a' = 'b')
-->   |        ^^^^^^^
-->   hint: use the catalog that is there: default_catalog

CREATE DATABASE d
--> 1:8: not supported: CREATE DATABASE is not supported
-->   | CREATE DATABASE d
-->   |        ^^^^^^^^
-->   hint: use the database that is there: default_database

DROP DATABASE d
--> 1:6: not supported: DROP DATABASE is not supported
-->   | DROP DATABASE d
-->   |      ^^^^^^^^
-->   hint: use the database that is there: default_database

CREATE MATERIALIZED TABLE t AS SELECT 1
--> 1:8: not supported: CREATE MATERIALIZED is not supported
-->   | CREATE MATERIALIZED TABLE t AS SELECT 1
-->   |        ^^^^^^^^^^^^
-->   hint: write CREATE TABLE and an INSERT INTO that fills it

CREATE OR REPLACE TABLE t AS SELECT 1
--> 1:8: not supported: CREATE OR REPLACE is not supported
-->   | CREATE OR REPLACE TABLE t AS SELECT 1
-->   |        ^^
-->   hint: drop the object first, or submit the job again

CREATE TABLE t AS SELECT 1
--> 1:16: not supported: CREATE TABLE … AS is not supported
-->   | CREATE TABLE t AS SELECT 1
-->   |                ^^
-->   hint: write CREATE TABLE with its columns, then INSERT INTO

CREATE TABLE t WITH ('a' = 'b') AS SELECT 1
--> 1:33: not supported: CREATE TABLE … AS is not supported
-->   | CREATE TABLE t WITH ('a' = 'b') AS SELECT 1
-->   |                                 ^^
-->   hint: write CREATE TABLE with its columns, then INSERT INTO

CREATE TABLE t (a INT) LIKE u
--> 1:24: not supported: CREATE TABLE … LIKE is not supported
-->   | CREATE TABLE t (a INT) LIKE u
-->   |                        ^^^^
-->   hint: write the columns and options out

CREATE TABLE t (a INT) PARTITIONED BY (a)
--> 1:24: not supported: PARTITIONED BY is not supported
-->   | CREATE TABLE t (a INT) PARTITIONED BY (a)
-->   |                        ^^^^^^^^^^^
-->   hint: leave it out: files are written to one folder

CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO 4 BUCKETS
--> 1:24: not supported: DISTRIBUTED is not supported
-->   | CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO 4 BUCKETS
-->   |                        ^^^^^^^^^^^
-->   hint: set 'key.fields' of a topic to choose the shard of a row

CREATE TABLE t (a INT, UNIQUE (a))
--> 1:24: not supported: UNIQUE is not supported
-->   | CREATE TABLE t (a INT, UNIQUE (a))
-->   |                        ^^^^^^
-->   hint: declare a PRIMARY KEY … NOT ENFORCED

CREATE FUNCTION f AS 'F' LANGUAGE JAVA USING JAR 'f.jar'
--> 1:40: not supported: USING JAR is not supported
-->   | CREATE FUNCTION f AS 'F' LANGUAGE JAVA USING JAR 'f.jar'
-->   |                                        ^^^^^
-->   hint: there is no JVM here: write the function in Python

INSERT OVERWRITE t SELECT 1
--> 1:8: not supported: INSERT OVERWRITE is not supported
-->   | INSERT OVERWRITE t SELECT 1
-->   |        ^^^^^^^^^
-->   hint: use INSERT INTO: streams only append

INSERT INTO t PARTITION (a = 1) SELECT 1
--> 1:15: not supported: INSERT INTO … PARTITION is not supported
-->   | INSERT INTO t PARTITION (a = 1) SELECT 1
-->   |               ^^^^^^^^^
-->   hint: select the values of the partition's columns

INSERT INTO t SELECT 1 ON CONFLICT DO DEDUPLICATE
--> 1:24: not supported: ON CONFLICT is not supported
-->   | INSERT INTO t SELECT 1 ON CONFLICT DO DEDUPLICATE
-->   |                        ^^
-->   hint: the last row of a primary key wins

LOAD MODULE hive
--> 1:1: not supported: LOAD is not supported
-->   | LOAD MODULE hive
-->   | ^^^^
-->   hint: there is one module of functions, and it is loaded

ADD JAR 'x.jar'
--> 1:1: not supported: ADD JAR is not supported
-->   | ADD JAR 'x.jar'
-->   | ^^^
-->   hint: there is no JVM here: write functions in Python, CREATE FUNCTION … LANGUAGE PYTHON

CALL system.f(1)
--> 1:1: not supported: CALL is not supported
-->   | CALL system.f(1)
-->   | ^^^^
-->   hint: there are no procedures: use a function in SELECT

ANALYZE TABLE t COMPUTE STATISTICS
--> 1:1: not supported: ANALYZE is not supported
-->   | ANALYZE TABLE t COMPUTE STATISTICS
-->   | ^^^^^^^
-->   hint: leave it out: plans do not depend on statistics

TRUNCATE TABLE t
--> 1:1: not supported: TRUNCATE is not supported
-->   | TRUNCATE TABLE t
-->   | ^^^^^^^^
-->   hint: drop the table and create it again

COMPILE PLAN 'x' FOR INSERT INTO t SELECT 1
--> 1:1: not supported: COMPILE is not supported
-->   | COMPILE PLAN 'x' FOR INSERT INTO t SELECT 1
-->   | ^^^^^^^
-->   hint: submit the statements themselves: jobs are durable: submit and stop them with `sql submit` and `sql stop`

STOP JOB 'abc' WITH SAVEPOINT
--> 1:1: not supported: STOP JOB is not supported
-->   | STOP JOB 'abc' WITH SAVEPOINT
-->   | ^^^^
-->   hint: jobs are durable: submit and stop them with `sql submit` and `sql stop`

USE MODULES hive
--> 1:1: not supported: USE MODULES is not supported
-->   | USE MODULES hive
-->   | ^^^
-->   hint: there is one module of functions, and it is loaded

SHOW MODULES
--> 1:1: not supported: SHOW MODULES is not supported
-->   | SHOW MODULES
-->   | ^^^^
-->   hint: use SHOW FUNCTIONS

DESCRIBE CATALOG c
--> 1:1: not supported: DESCRIBE CATALOG is not supported
-->   | DESCRIBE CATALOG c
-->   | ^^^^^^^^
-->   hint: use SHOW DATABASES and SHOW TABLES

SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS TRUE)
--> 1:17: not supported: MATCH_RECOGNIZE is not supported
-->   | SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS TRUE)
-->   |                 ^^^^^^^^^^^^^^^
-->   hint: find the pattern with OVER aggregates or joins

SELECT * FROM t TABLESAMPLE BERNOULLI (10)
--> 1:17: not supported: TABLESAMPLE is not supported
-->   | SELECT * FROM t TABLESAMPLE BERNOULLI (10)
-->   |                 ^^^^^^^^^^^
-->   hint: filter by a hash of the key, such as MOD(id, 10) = 0

SELECT STREAM a FROM t
--> 1:8: not supported: SELECT STREAM is not supported
-->   | SELECT STREAM a FROM t
-->   |        ^^^^^^
-->   hint: all queries over streams are continuous: leave STREAM out

WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a
--> 1:6: not supported: WITH RECURSIVE is not supported
-->   | WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a
-->   |      ^^^^^^^^^
-->   hint: Flink SQL has no recursive queries either: unroll it

SELECT N'abc'
--> 1:8: not supported: string prefix 'N' is not supported
-->   | SELECT N'abc'
-->   |        ^
-->   hint: all strings are Unicode: leave the prefix out

SELECT CAST(a AS RAW('x', 'y'))
--> 1:18: not supported: type RAW is not supported
-->   | SELECT CAST(a AS RAW('x', 'y'))
-->   |                  ^^^
-->   hint: use STRING or BYTES

SELECT CAST(a AS TIMESTAMP WITH TIME ZONE)
--> 1:28: not supported: TIMESTAMP WITH TIME ZONE is not supported
-->   | SELECT CAST(a AS TIMESTAMP WITH TIME ZONE)
-->   |                            ^^^^
-->   hint: use TIMESTAMP_LTZ
