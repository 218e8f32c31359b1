-- The typed statements of this folder were written by hand, before the grammar.
CREATE TABLE t (
  a INT NOT NULL,
  b AS a + 1,
  c STRING METADATA FROM 'key' VIRTUAL,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED,
  UNIQUE (b) ENFORCED
) COMMENT 'x' DISTRIBUTED BY HASH (a) INTO 4 BUCKETS PARTITIONED BY (c) WITH ('connector' = 'topic')
--> CreateTable
-->   name: t
-->   ColumnDefinition
-->     name: a
-->     kind: physical
-->     type: INT NOT NULL
-->   ColumnDefinition
-->     name: b
-->     kind: computed
-->     expression: (Add a 1)
-->   ColumnDefinition
-->     name: c
-->     kind: metadata
-->     type: STRING
-->     metadata_key: key
-->     virtual: True
-->   ColumnDefinition
-->     name: ts
-->     kind: physical
-->     type: TIMESTAMP(3)
-->   watermark
-->     column: ts
-->     expression: (Sub ts Interval:5000 ms)
-->   Constraint
-->     columns: a
-->     name: pk
-->     enforced: False
-->   Constraint
-->     columns: b
-->     unique: True
-->     enforced: True
-->   options: 'connector' = 'topic'
-->   comment: x
-->   distribution: Distribution
-->     columns: a
-->     method: HASH
-->     buckets: 4
-->   partition_keys: c

CREATE TABLE t (a INT) WITH ('k' = 'v') LIKE c.d.u (INCLUDING ALL OVERWRITING OPTIONS EXCLUDING PARTITIONS)
--> CreateTable
-->   name: t
-->   ColumnDefinition
-->     name: a
-->     kind: physical
-->     type: INT
-->   options: 'k' = 'v'
-->   like: TableLike
-->     table: c, d, u
-->     LikeOption
-->       strategy: INCLUDING
-->       feature: ALL
-->     LikeOption
-->       strategy: OVERWRITING
-->       feature: OPTIONS
-->     LikeOption
-->       strategy: EXCLUDING
-->       feature: PARTITIONS

CREATE TABLE t (b, a) WITH ('k' = 'v') AS SELECT a, b FROM u
--> CreateTable
-->   name: t
-->   options: 'k' = 'v'
-->   query: (Select [a b] from_=(From (Table u)))
-->   column_order: b, a

CREATE OR REPLACE TABLE t AS SELECT 1
--> CreateTable
-->   name: t
-->   query: (Select [1])
-->   replace: True

REPLACE TABLE t WITH ('k' = 'v') AS SELECT 1
--> CreateTable
-->   name: t
-->   options: 'k' = 'v'
-->   query: (Select [1])
-->   replace: True
-->   create: False

CREATE TABLE t (a STRUCTURED<'x.User', name STRING NOT NULL, age INT 'years'>, b RAW('x.Class', 'snap'), c VARIANT,
  d BITMAP, e ROW(f INT, g ARRAY<INT NOT NULL>) NOT NULL, h INT NOT NULL ARRAY, i my.`type`, j INTERVAL DAY(2) TO SECOND(3))
--> CreateTable
-->   name: t
-->   ColumnDefinition
-->     name: a
-->     kind: physical
-->     type: STRUCTURED<'x.User', `name` STRING NOT NULL, `age` INT>
-->   ColumnDefinition
-->     name: b
-->     kind: physical
-->     type: RAW('x.Class', 'snap')
-->   ColumnDefinition
-->     name: c
-->     kind: physical
-->     type: VARIANT
-->   ColumnDefinition
-->     name: d
-->     kind: physical
-->     type: BITMAP
-->   ColumnDefinition
-->     name: e
-->     kind: physical
-->     type: ROW<`f` INT, `g` ARRAY<INT NOT NULL>> NOT NULL
-->   ColumnDefinition
-->     name: h
-->     kind: physical
-->     type: ARRAY<INT NOT NULL>
-->   ColumnDefinition
-->     name: i
-->     kind: physical
-->     type: `my`.`type`
-->   ColumnDefinition
-->     name: j
-->     kind: physical
-->     type: INTERVAL SECOND(3)

CREATE OR ALTER MATERIALIZED TABLE mt (CONSTRAINT p PRIMARY KEY (a) NOT ENFORCED) COMMENT 'c' PARTITIONED BY (ds)
WITH ('format' = 'json') START_MODE = FROM_NOW(INTERVAL '1' DAY) FRESHNESS = INTERVAL '30' SECOND REFRESH_MODE = FULL AS SELECT a, ds FROM t
--> CreateMaterializedTable
-->   name: mt
-->   query: (Select [a ds] from_=(From (Table t)))
-->   Constraint
-->     columns: a
-->     name: p
-->     enforced: False
-->   comment: c
-->   partition_keys: ds
-->   options: 'format' = 'json'
-->   start_mode: StartMode
-->     mode: FROM_NOW
-->     value: Interval:86400000 ms
-->   freshness: Interval:30000 ms
-->   refresh_mode: FULL
-->   or_alter: True

CREATE OR REPLACE TEMPORARY VIEW IF NOT EXISTS v (a) COMMENT 'view' AS (SELECT 1) UNION ALL SELECT 2
--> CreateView
-->   name: v
-->   columns: a
-->   query: (Union (Subquery (Select [1])) (Select [2]))
-->   temporary: True
-->   if_not_exists: True
-->   comment: view
-->   replace: True

CREATE TEMPORARY SYSTEM FUNCTION f AS 'x.F' LANGUAGE SCALA USING JAR 'a.jar', JAR 'b.jar' WITH ('k' = 'v')
--> CreateFunction
-->   name: f
-->   class_name: x.F
-->   language: SCALA
-->   temporary: True
-->   system: True
-->   Resource
-->     kind: JAR
-->     path: a.jar
-->   Resource
-->     kind: JAR
-->     path: b.jar
-->   options: 'k' = 'v'

CREATE CATALOG IF NOT EXISTS c COMMENT 'x' WITH ('type' = 'generic_in_memory')
--> CreateCatalog
-->   name: c
-->   options: 'type' = 'generic_in_memory'
-->   comment: x
-->   if_not_exists: True

CREATE DATABASE IF NOT EXISTS c.d COMMENT 'x' WITH ('k' = 'v')
--> CreateDatabase
-->   name: c, d
-->   options: 'k' = 'v'
-->   comment: x
-->   if_not_exists: True

CREATE TEMPORARY MODEL m INPUT (a INT) OUTPUT (b STRING) COMMENT 'x' WITH ('provider' = 'openai')
--> CreateModel
-->   name: m
-->   inputs: ColumnDefinition
-->     name: a
-->     kind: physical
-->     type: INT
-->   outputs: ColumnDefinition
-->     name: b
-->     kind: physical
-->     type: STRING
-->   comment: x
-->   options: 'provider' = 'openai'
-->   temporary: True

CREATE CONNECTION c COMMENT 'x' WITH ('type' = 'basic')
--> CreateConnection
-->   name: c
-->   options: 'type' = 'basic'
-->   comment: x

DROP TEMPORARY TABLE IF EXISTS a.b
--> Drop
-->   kind: TABLE
-->   name: a, b
-->   temporary: True
-->   if_exists: True

DROP DATABASE d CASCADE; DROP MATERIALIZED TABLE m; DROP CATALOG c
--> Drop
-->   kind: DATABASE
-->   name: d
-->   cascade: True
--> Drop
-->   kind: MATERIALIZED_TABLE
-->   name: m
--> Drop
-->   kind: CATALOG
-->   name: c

ALTER TABLE IF EXISTS t RENAME TO u
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: Rename
-->     name: u
-->   if_exists: True

ALTER TABLE t RENAME a.b TO c
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: RenameColumn
-->     column: a, b
-->     name: c

ALTER TABLE t SET ('k' = 'v'); ALTER TABLE t RESET ('k', 'l')
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: SetOptions
-->     options: 'k' = 'v'
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: ResetOptions
-->     keys: k, l

ALTER TABLE t ADD (a INT COMMENT 'x' FIRST, b AS a * 2 AFTER a, PRIMARY KEY (a) NOT ENFORCED, WATERMARK FOR ts AS ts)
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: ChangeSchema
-->     ColumnChange
-->       column: ColumnDefinition
-->         name: a
-->         kind: physical
-->         type: INT
-->         comment: x
-->       first: True
-->     ColumnChange
-->       column: ColumnDefinition
-->         name: b
-->         kind: computed
-->         expression: (Mul a 2)
-->       after: a
-->     Constraint
-->       columns: a
-->       enforced: False
-->     watermark
-->       column: ts
-->       expression: ts

ALTER TABLE t MODIFY a.b BIGINT NOT NULL AFTER c.d
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: ChangeSchema
-->     ColumnChange
-->       column: ColumnDefinition
-->         name: b
-->         kind: physical
-->         type: BIGINT NOT NULL
-->         path: a
-->       after: c, d
-->     modify: True

ALTER TABLE t DROP (a, b.c); ALTER TABLE t DROP PRIMARY KEY; ALTER TABLE t DROP CONSTRAINT pk; ALTER TABLE t DROP WATERMARK
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: DropColumns
-->     columns: a, b.c
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: DropConstraint
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: DropConstraint
-->     name: pk
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: DropWatermark

ALTER TABLE t MODIFY DISTRIBUTION INTO 7 BUCKETS; ALTER TABLE t DROP DISTRIBUTION
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: ChangeDistribution
-->     distribution: Distribution
-->       buckets: 7
-->     modify: True
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: DropDistribution

ALTER TABLE t ADD IF NOT EXISTS PARTITION (a = 1, b = 'x') WITH ('k' = 'v') PARTITION (a = 2)
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: AddPartitions
-->     NewPartition
-->       PartitionValue
-->         name: a
-->         value: 1
-->       PartitionValue
-->         name: b
-->         value: 'x'
-->       options: 'k' = 'v'
-->     NewPartition
-->       PartitionValue
-->         name: a
-->         value: 2
-->     if_not_exists: True

ALTER TABLE t DROP IF EXISTS PARTITION (a = 1), PARTITION (a = 2)
--> Alter
-->   kind: TABLE
-->   name: t
-->   action: DropPartitions
-->     partitions
-->       PartitionValue
-->         name: a
-->         value: 1
-->     partitions
-->       PartitionValue
-->         name: a
-->         value: 2
-->     if_exists: True

ALTER MATERIALIZED TABLE m SUSPEND; ALTER MATERIALIZED TABLE m RESUME WITH ('k' = 'v')
--> Alter
-->   kind: MATERIALIZED_TABLE
-->   name: m
-->   action: Suspend
--> Alter
-->   kind: MATERIALIZED_TABLE
-->   name: m
-->   action: Resume
-->     options: 'k' = 'v'

ALTER MATERIALIZED TABLE m REFRESH PARTITION (ds = '2024-01-01'); ALTER MATERIALIZED TABLE m SET FRESHNESS = INTERVAL '1' HOUR
--> Alter
-->   kind: MATERIALIZED_TABLE
-->   name: m
-->   action: Refresh
-->     PartitionValue
-->       name: ds
-->       value: '2024-01-01'
--> Alter
-->   kind: MATERIALIZED_TABLE
-->   name: m
-->   action: SetFreshness
-->     freshness: Interval:3600000 ms

ALTER MATERIALIZED TABLE m SET REFRESH_MODE = CONTINUOUS; ALTER MATERIALIZED TABLE m AS SELECT 1
--> Alter
-->   kind: MATERIALIZED_TABLE
-->   name: m
-->   action: SetRefreshMode
-->     mode: CONTINUOUS
--> Alter
-->   kind: MATERIALIZED_TABLE
-->   name: m
-->   action: SetQuery
-->     query: (Select [1])

ALTER VIEW v AS SELECT 1; ALTER TEMPORARY SYSTEM FUNCTION IF EXISTS f AS 'x.F' LANGUAGE PYTHON; ALTER CATALOG c COMMENT 'x'
--> Alter
-->   kind: VIEW
-->   name: v
-->   action: SetQuery
-->     query: (Select [1])
--> Alter
-->   kind: FUNCTION
-->   name: f
-->   action: SetFunction
-->     class_name: x.F
-->     language: PYTHON
-->   if_exists: True
-->   temporary: True
-->   system: True
--> Alter
-->   kind: CATALOG
-->   name: c
-->   action: SetComment
-->     comment: x

-- RSQLDB's older forms.
CREATE TABLE s (a VARCHAR, tag VARCHAR HEADER, ts TIMESTAMP, WATERMARK wm FOR ts AS WITHOFFSET(ts, 1000), PRIMARY KEY (a), PERIOD FOR SYSTEM_TIME)
WITH (type = 'rocketmq', topic.name = 'x')
--> CreateTable
-->   name: s
-->   ColumnDefinition
-->     name: a
-->     kind: physical
-->     type: STRING
-->   ColumnDefinition
-->     name: tag
-->     kind: header
-->     type: STRING
-->   ColumnDefinition
-->     name: ts
-->     kind: physical
-->     type: TIMESTAMP(6)
-->   watermark
-->     column: ts
-->     expression: WITHOFFSET(ts, 1000)
-->     name: wm
-->   Constraint
-->     columns: a
-->   options: 'type' = 'rocketmq', 'topic.name' = 'x'
-->   system_time: True
