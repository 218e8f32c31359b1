a.b.c.d
--> a.b.c.d

a.b.c.d.e.f
--> (Dot (Dot a.b.c.d e) f)

f(x).y[1].z
--> (Dot (Bracket (Dot F(x) y) [1]) z)

(a).b
--> (Dot (Paren a) b)

t.`the column`.`with ``ticks`
--> t.the column.with `ticks

ARRAY[1, 2][1] = MAP['k', 1]['k']
--> (EQ (Bracket ARRAY(1, 2) [1]) (Bracket MAP('k', 1) ['k']))

ROW(1, 'a') = (1, 'a')
--> (EQ ROW(1, 'a') (Tuple [1 'a']))

CASE a WHEN 1, 2 THEN 'x' ELSE 'y' END
--> (Case a ifs=[(If 1 true='x') (If 2 true='x')] default='y')

CASE WHEN a THEN 1 END
--> (Case ifs=[(If a true=1)])

CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE)
--> (Cast a to=<TIMESTAMP_LTZ(3)>)

TRY_CAST(a AS ROW<x INT NOT NULL, y ARRAY<MAP<STRING, DECIMAL(10, 2)>>>)
--> (TryCast a to=<ROW<`x` INT NOT NULL, `y` ARRAY<MAP<STRING, DECIMAL(10, 2)>>>>)

a BETWEEN SYMMETRIC 1 AND 2
--> (Between a low=1 high=2 symmetric=True)

a NOT IN ('x', 'y') AND b IN (SELECT c FROM t)
--> (And (Not (In a ['x' 'y'])) (In b query=(Subquery (Select [c] from_=(From (Table t))))))

EXISTS (SELECT 1 FROM t) AND a = (SELECT MAX(b) FROM t) AND a > ALL (SELECT b FROM t)
--> (And (And (Exists (Select [1] from_=(From (Table t)))) (EQ a (Subquery (Select [MAX(b)] from_=(From (Table t)))))) (GT a (All (Select [b] from_=(From (Table t))))))

a IS NOT TRUE AND b IS FALSE AND c IS NOT UNKNOWN AND d IS NOT NULL
--> (And (And (And (Not (Is a Boolean:True)) (Is b Boolean:False)) (Not (Is c (Null kind=UNKNOWN)))) (Not (Is d (Null))))

a IS NOT DISTINCT FROM b
--> (NullSafeEQ a b)

(a, b) OVERLAPS (c, d)
--> (Overlaps (Tuple [a b]) (Tuple [c d]))
