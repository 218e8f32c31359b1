-- A table with all kinds of columns.
CREATE TEMPORARY TABLE IF NOT EXISTS `default_catalog`.db.`my table` (
  id BIGINT NOT NULL COMMENT 'the key',
  name VARCHAR(20),
  price DECIMAL(10, 2) NULL,
  tags ARRAY<STRING NOT NULL>,
  place ROW<lat DOUBLE, `long` DOUBLE COMMENT 'east'>,
  ts TIMESTAMP(3),
  total AS price * 2 COMMENT 'twice',
  proc AS PROCTIME(),
  `offset` BIGINT METADATA VIRTUAL,
  stamp TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT pk PRIMARY KEY (id, name) NOT ENFORCED
) COMMENT 'it''s a table'
WITH ('connector' = 'topic', 'path' = 'c:\temp', 'empty' = '');
--> CreateTable
-->   name: default_catalog, db, my table
-->   ColumnDefinition
-->     name: id
-->     kind: physical
-->     type: BIGINT NOT NULL
-->     comment: the key
-->   ColumnDefinition
-->     name: name
-->     kind: physical
-->     type: VARCHAR(20)
-->   ColumnDefinition
-->     name: price
-->     kind: physical
-->     type: DECIMAL(10, 2)
-->   ColumnDefinition
-->     name: tags
-->     kind: physical
-->     type: ARRAY<STRING NOT NULL>
-->   ColumnDefinition
-->     name: place
-->     kind: physical
-->     type: ROW<`lat` DOUBLE, `long` DOUBLE>
-->   ColumnDefinition
-->     name: ts
-->     kind: physical
-->     type: TIMESTAMP(3)
-->   ColumnDefinition
-->     name: total
-->     kind: computed
-->     expression: (Mul price 2)
-->     comment: twice
-->   ColumnDefinition
-->     name: proc
-->     kind: computed
-->     expression: PROCTIME()
-->   ColumnDefinition
-->     name: offset
-->     kind: metadata
-->     type: BIGINT
-->     metadata_key: offset
-->     virtual: True
-->   ColumnDefinition
-->     name: stamp
-->     kind: metadata
-->     type: TIMESTAMP_LTZ(3)
-->     metadata_key: timestamp
-->   watermark
-->     column: ts
-->     expression: (Sub ts Interval:5000 ms)
-->   Constraint
-->     columns: id, name
-->     name: pk
-->     enforced: False
-->   options: 'connector' = 'topic', 'path' = 'c:\\temp', 'empty' = ''
-->   temporary: True
-->   if_not_exists: True
-->   comment: it's a table

CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED);
--> CreateTable
-->   name: t
-->   ColumnDefinition
-->     name: id
-->     kind: physical
-->     type: INT
-->   Constraint
-->     columns: id
-->     enforced: False

CREATE TABLE t (a TIMESTAMP, b TIME, c CHAR, d VARBINARY(3), e BYTES, f DOUBLE PRECISION, g NUMERIC(5), h INT ARRAY,
  i MULTISET<INT>, j TIMESTAMP(9) WITHOUT TIME ZONE, k INTERVAL DAY(3) TO SECOND(3), l INTERVAL YEAR, m DEC, n REAL,
  o CHARACTER VARYING(7), p BOOLEAN, q DATE, r MAP<STRING, INT>, s STRING, t TINYINT, u SMALLINT, v FLOAT);
--> CreateTable
-->   name: t
-->   ColumnDefinition
-->     name: a
-->     kind: physical
-->     type: TIMESTAMP(6)
-->   ColumnDefinition
-->     name: b
-->     kind: physical
-->     type: TIME(0)
-->   ColumnDefinition
-->     name: c
-->     kind: physical
-->     type: CHAR(1)
-->   ColumnDefinition
-->     name: d
-->     kind: physical
-->     type: VARBINARY(3)
-->   ColumnDefinition
-->     name: e
-->     kind: physical
-->     type: BYTES
-->   ColumnDefinition
-->     name: f
-->     kind: physical
-->     type: DOUBLE
-->   ColumnDefinition
-->     name: g
-->     kind: physical
-->     type: DECIMAL(5, 0)
-->   ColumnDefinition
-->     name: h
-->     kind: physical
-->     type: ARRAY<INT>
-->   ColumnDefinition
-->     name: i
-->     kind: physical
-->     type: MULTISET<INT>
-->   ColumnDefinition
-->     name: j
-->     kind: physical
-->     type: TIMESTAMP(9)
-->   ColumnDefinition
-->     name: k
-->     kind: physical
-->     type: INTERVAL SECOND(3)
-->   ColumnDefinition
-->     name: l
-->     kind: physical
-->     type: INTERVAL MONTH
-->   ColumnDefinition
-->     name: m
-->     kind: physical
-->     type: DECIMAL(10, 0)
-->   ColumnDefinition
-->     name: n
-->     kind: physical
-->     type: FLOAT
-->   ColumnDefinition
-->     name: o
-->     kind: physical
-->     type: VARCHAR(7)
-->   ColumnDefinition
-->     name: p
-->     kind: physical
-->     type: BOOLEAN
-->   ColumnDefinition
-->     name: q
-->     kind: physical
-->     type: DATE
-->   ColumnDefinition
-->     name: r
-->     kind: physical
-->     type: MAP<STRING, INT>
-->   ColumnDefinition
-->     name: s
-->     kind: physical
-->     type: STRING
-->   ColumnDefinition
-->     name: t
-->     kind: physical
-->     type: TINYINT
-->   ColumnDefinition
-->     name: u
-->     kind: physical
-->     type: SMALLINT
-->   ColumnDefinition
-->     name: v
-->     kind: physical
-->     type: FLOAT

DROP TEMPORARY TABLE IF EXISTS a.b.c;
--> Drop
-->   kind: TABLE
-->   name: a, b, c
-->   temporary: True
-->   if_exists: True

DROP VIEW v;
--> Drop
-->   kind: VIEW
-->   name: v
