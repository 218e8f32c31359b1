a = b IS NULL
--> (Is (EQ a b) (Null))

a IS DISTINCT FROM b + c
--> (NullSafeNEQ a (Add b c))

a + b IS DISTINCT FROM c
--> (NullSafeNEQ (Add a b) c)

a = b IS DISTINCT FROM c
--> (NullSafeNEQ (EQ a b) c)

a IS DISTINCT FROM b = c
--> (EQ (NullSafeNEQ a b) c)

a = b < c
--> (LT (EQ a b) c)

a || b + c
--> (Add (DPipe a b) c)

a + b || c
--> (Add a (DPipe b c))

a - b || c
--> (Sub a (DPipe b c))

a * b || c
--> (DPipe (Mul a b) c)

a || b * c
--> (Mul (DPipe a b) c)

NOT a = b
--> (Not (EQ a b))

NOT a IS NULL
--> (Not (Is a (Null)))

NOT a AND b
--> (And (Not a) b)

a = NOT b
--> (EQ a (Not b))

a = NOT b = c
--> (EQ a (Not (EQ b c)))

a = NOT b AND c
--> (And (EQ a (Not b)) c)

a IN (1,2) = b
--> (EQ (In a [1 2]) b)

a = b IN (1,2)
--> (EQ a (In b [1 2]))

a = b LIKE c
--> (EQ a (Like b c))

a LIKE b = c
--> (EQ (Like a b) c)

a LIKE b || c
--> (Like a (DPipe b c))

a LIKE b LIKE c
--> (Like a (Like b c))

a NOT LIKE b ESCAPE c = d
--> (EQ (Not (Escape (Like a b) c)) d)

a BETWEEN b AND c AND d
--> (And (Between a low=b high=c) d)

a BETWEEN b AND c = d
--> (EQ (Between a low=b high=c) d)

a BETWEEN b = x AND c
--> (Between a low=(EQ b x) high=c)

a = b BETWEEN c AND d
--> (EQ a (Between b low=c high=d))

- a + b
--> (Add (Neg a) b)

- a * b
--> (Mul (Neg a) b)

- a IS NULL
--> (Is (Neg a) (Null))

a IS NULL = b
--> (EQ (Is a (Null)) b)

a IS NULL AND b
--> (And (Is a (Null)) b)

a IS NULL LIKE b
--> (Like (Is a (Null)) b)

a = b = c
--> (EQ (EQ a b) c)

- a[1]
--> (Neg (Bracket a [1]))

a.b[1].c
--> (Dot (Bracket a.b [1]) c)

a IS TRUE IS NOT TRUE
--> (Not (Is (Is a Boolean:True) Boolean:True))

a IN (1) IS NULL
--> (Is (In a [1]) (Null))

a + b IN (1)
--> (In (Add a b) [1])

a SIMILAR TO b || c
--> (SimilarTo a (DPipe b c))

- - a
--> (Neg (Neg a))

+ a
--> (Plus a)

a - -1
--> (Sub a (Neg 1))

a NOT IN (1) AND b
--> (And (Not (In a [1])) b)

NOT NOT a
--> (Not (Not a))

a = - b
--> (EQ a (Neg b))

a * - b
--> (Mul a (Neg b))

NOT a BETWEEN b AND c
--> (Not (Between a low=b high=c))

a AND b = c OR d
--> (Or (And a (EQ b c)) d)

a % b * c
--> (Mul (Mod a b) c)

CASE WHEN a = 1 THEN 2 END = 2
--> (EQ (Case ifs=[(If (EQ a 1) true=2)]) 2)

a LIKE b ESCAPE '\' OR c LIKE d
--> (Or (Escape (Like a b) '\') (Like c d))

a BETWEEN b AND c BETWEEN d AND e
--> (Between (Between a low=b high=c) low=d high=e)

a BETWEEN NOT b AND c
--> (Between a low=(Not b) high=c)

INTERVAL '1' DAY + a
--> (Add Interval:86400000 ms a)

a = ANY (1, 2)
--> (EQ a (Any (Tuple [1 2])))

(a, b) OVERLAPS (c, d)
--> (Overlaps (Tuple [a b]) (Tuple [c d]))
