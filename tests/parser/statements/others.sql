CREATE VIEW v (a, b) COMMENT 'x' AS SELECT 1, 2;
--> CreateView
-->   name: v
-->   columns: a, b
-->   query: (Select [1 2])
-->   comment: x

CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT * FROM t WHERE a = 1;
--> CreateView
-->   name: v
-->   query: (Select [(Star)] from_=(From (Table t)) where=(Where (EQ a 1)))
-->   temporary: True
-->   if_not_exists: True

CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS f AS 'module.f' LANGUAGE PYTHON;
--> CreateFunction
-->   name: f
-->   class_name: module.f
-->   language: PYTHON
-->   temporary: True
-->   if_not_exists: True
-->   system: True

CREATE FUNCTION c.d.f AS 'org.F';
--> CreateFunction
-->   name: c, d, f
-->   class_name: org.F
-->   language: JAVA

INSERT INTO c.d.t (a, b) SELECT a, b FROM s;
--> Insert
-->   target: c, d, t
-->   columns: a, b
-->   query: (Select [a b] from_=(From (Table s)))

INSERT INTO t (SELECT 1);
--> Insert
-->   target: t
-->   query: (Subquery (Select [1]))

INSERT INTO t VALUES (1, 'a'), (2, 'b;''c');
--> Insert
-->   target: t
-->   query: (Values [(Tuple [1 'a']) (Tuple [2 'b;'c'])])

EXECUTE STATEMENT SET BEGIN
  INSERT INTO a SELECT 1;
  INSERT INTO b SELECT CASE WHEN x THEN 1 END;
END;
--> StatementSet
-->   Insert
-->     target: a
-->     query: (Select [1])
-->   Insert
-->     target: b
-->     query: (Select [(Case ifs=[(If x true=1)])])

BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END; SELECT 1;
--> StatementSet
-->   Insert
-->     target: a
-->     query: (Select [1])
--> Query
-->   query: (Select [1])

EXPLAIN CHANGELOG_MODE, ESTIMATED_COST INSERT INTO a SELECT 1;
--> Explain
-->   statement: Insert
-->     target: a
-->     query: (Select [1])
-->   details: CHANGELOG_MODE, ESTIMATED_COST

EXPLAIN PLAN FOR SELECT 1;
--> Explain
-->   statement: Query
-->     query: (Select [1])

EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;
--> Explain
-->   statement: StatementSet
-->     Insert
-->       target: a
-->       query: (Select [1])

SHOW TABLES FROM db LIKE 'a%'; SHOW CREATE VIEW v; SHOW COLUMNS IN t; SHOW CURRENT CATALOG; SHOW USER FUNCTIONS;
SHOW JOBS; DESCRIBE a.b; DESC EXTENDED t; USE CATALOG c; USE c.d;
--> Show
-->   what: TABLES
-->   name: db
-->   like: a%
--> ShowCreate
-->   kind: VIEW
-->   name: v
--> Show
-->   what: COLUMNS
-->   name: t
--> Show
-->   what: CURRENT_CATALOG
--> Show
-->   what: USER_FUNCTIONS
--> Show
-->   what: JOBS
--> Describe
-->   name: a, b
--> Describe
-->   name: t
-->   extended: True
--> Use
-->   name: c
-->   catalog: True
--> Use
-->   name: c, d

SET; SET 'a.b' = 'it''s'; SET table.exec.mini-batch.size = 100; SET 'a.size' = '100'; RESET 'a.b'; RESET; RESET a.b;
--> Set
--> Set
-->   key: a.b
-->   value: it's
--> Set
-->   key: table.exec.mini-batch.size
-->   value: 100
--> Set
-->   key: a.size
-->   value: 100
--> Reset
-->   key: a.b
--> Reset
--> Reset
-->   key: a.b

CREATE FUNCTION f AS 'module.f' LANGUAGE PYTHON USING FILE 'functions/module.py'; DESCRIBE FUNCTION EXTENDED d.f; DROP TEMPORARY SYSTEM FUNCTION IF EXISTS f;
--> CreateFunction
-->   name: f
-->   class_name: module.f
-->   language: PYTHON
-->   file: functions/module.py
--> Describe
-->   name: d, f
-->   kind: FUNCTION
-->   extended: True
--> Drop
-->   kind: FUNCTION
-->   name: f
-->   temporary: True
-->   if_exists: True
-->   system: True
