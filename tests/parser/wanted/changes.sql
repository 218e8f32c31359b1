INSERT OVERWRITE c.d.t PARTITION (a = 1, b = DATE '2024-01-01') (x, y.z) SELECT x, y FROM u
--> Insert
-->   target: c, d, t
-->   columns: x, y.z
-->   query: (Select [x y] from_=(From (Table u)))
-->   PartitionValue
-->     name: a
-->     value: 1
-->   PartitionValue
-->     name: b
-->     value: (Cast '2024-01-01' to=<DATE NOT NULL>)
-->   overwrite: True

INSERT INTO t /*+ OPTIONS('a' = 'b', c = 'd') */ SELECT 1 ON CONFLICT DO DEDUPLICATE
--> Insert
-->   target: t
-->   query: (Select [1])
-->   hints: OPTIONS((EQ 'a' 'b'), (EQ c 'd'))
-->   on_conflict: DEDUPLICATE

UPSERT INTO t VALUES (1, DEFAULT), ROW(2, NULL)
--> Insert
-->   target: t
-->   query: (Values [(Tuple [1 Var:DEFAULT]) (Tuple [2 (Null)])])
-->   upsert: True

INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '1' HOUR)
EMIT WITH DELAY '1' MINUTE BEFORE WATERMARK, WITHOUT DELAY AFTER WATERMARK
--> Insert
-->   target: o
-->   query: (Select [k COUNT((Star))] from_=(From (Table t)) group=(Group [k TUMBLE(ts, Interval:3600000 ms)]))
-->   Emit
-->     delay: Interval:60000 ms
-->     when: BEFORE
-->   Emit
-->     when: AFTER

UPDATE t /*+ OPTIONS('a' = 'b') */ AS u SET a = a + 1, b = DEFAULT_VALUE WHERE u.c IS NOT NULL
--> Update
-->   table: (Table t hints=[(Hint [OPTIONS((EQ 'a' 'b'))])] alias=(TableAlias u))
-->   Assignment
-->     column: a
-->     value: (Add a 1)
-->   Assignment
-->     column: b
-->     value: DEFAULT_VALUE
-->   where: (Not (Is u.c (Null)))

DELETE FROM t WHERE a IN (SELECT b FROM u)
--> Delete
-->   table: (Table t)
-->   where: (In a query=(Subquery (Select [b] from_=(From (Table u)))))

MERGE INTO t AS x USING u ON x.a = u.a WHEN MATCHED THEN UPDATE SET b = u.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.a, u.b)
--> Merge
-->   table: (Table t alias=(TableAlias x))
-->   source: (Table u)
-->   condition: (EQ x.a u.a)
-->   Assignment
-->     column: b
-->     value: u.b
-->   columns: a, b
-->   values: (Tuple [u.a u.b])

TRUNCATE TABLE c.d.t
--> Truncate
-->   name: c, d, t

COMPILE PLAN 'x.json' IF NOT EXISTS FOR STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END
--> CompilePlan
-->   path: x.json
-->   statement: StatementSet
-->     Insert
-->       target: a
-->       query: (Select [1])
-->     Insert
-->       target: b
-->       query: (Select [2])
-->   if_not_exists: True

COMPILE AND EXECUTE PLAN 'x.json' FOR INSERT INTO a SELECT 1
--> CompilePlan
-->   path: x.json
-->   statement: Insert
-->     target: a
-->     query: (Select [1])
-->   execute: True

EXECUTE PLAN 'x.json'
--> ExecutePlan
-->   path: x.json

EXPLAIN JSON_EXECUTION_PLAN, PLAN_ADVICE CREATE TABLE t WITH ('k' = 'v') AS SELECT 1
--> Explain
-->   statement: CreateTable
-->     name: t
-->     options: 'k' = 'v'
-->     query: (Select [1])
-->   details: JSON_EXECUTION_PLAN, PLAN_ADVICE
