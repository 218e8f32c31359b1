SHOW MATERIALIZED TABLES IN c.d NOT LIKE 'a%'; SHOW CATALOGS ILIKE '%x'; SHOW USER FUNCTIONS FROM d
--> Show
-->   what: MATERIALIZED_TABLES
-->   name: c, d
-->   like: a%
-->   negated: True
--> Show
-->   what: CATALOGS
-->   like: %x
-->   ignore_case: True
--> Show
-->   what: USER_FUNCTIONS
-->   name: d

SHOW PARTITIONS t PARTITION (a = 1); SHOW FULL MODULES; SHOW JARS; SHOW PROCEDURES; SHOW CURRENT DATABASE
--> Show
-->   what: PARTITIONS
-->   name: t
-->   PartitionValue
-->     name: a
-->     value: 1
--> Show
-->   what: FULL_MODULES
--> Show
-->   what: JARS
--> Show
-->   what: PROCEDURES
--> Show
-->   what: CURRENT_DATABASE

SHOW CREATE MATERIALIZED TABLE m; SHOW CREATE CATALOG c; SHOW CREATE MODEL a.b
--> ShowCreate
-->   kind: MATERIALIZED_TABLE
-->   name: m
--> ShowCreate
-->   kind: CATALOG
-->   name: c
--> ShowCreate
-->   kind: MODEL
-->   name: a, b

DESCRIBE CATALOG EXTENDED c; DESC DATABASE d; DESCRIBE FUNCTION f; DESC MODEL m; DESCRIBE JOB '123'
--> Describe
-->   name: c
-->   kind: CATALOG
-->   extended: True
--> Describe
-->   name: d
-->   kind: DATABASE
--> Describe
-->   name: f
-->   kind: FUNCTION
--> Describe
-->   name: m
-->   kind: MODEL
--> Describe
-->   name: 123
-->   kind: JOB

USE MODULES core, hive; LOAD MODULE hive WITH ('version' = '3'); UNLOAD MODULE hive
--> UseModules
-->   names: core, hive
--> LoadModule
-->   name: hive
-->   options: 'version' = '3'
--> UnloadModule
-->   name: hive

ADD JAR 'x.jar'; REMOVE JAR 'x.jar'; CALL c.d.p(1, x => 'y'); STOP JOB '12' WITH SAVEPOINT WITH DRAIN
--> AddJar
-->   path: x.jar
--> RemoveJar
-->   path: x.jar
--> Call
-->   call: c.d.P(1, (Kwarg Var:x 'y'))
--> StopJob
-->   job: 12
-->   savepoint: True
-->   drain: True

ANALYZE TABLE t PARTITION (a = 1, b) COMPUTE STATISTICS FOR COLUMNS x, y; ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS
--> Analyze
-->   name: t
-->   PartitionValue
-->     name: a
-->     value: 1
-->   PartitionValue
-->     name: b
-->   columns: x, y
--> Analyze
-->   name: t
-->   all_columns: True
