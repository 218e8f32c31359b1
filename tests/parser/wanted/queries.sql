SELECT /*+ BROADCAST(a, b), LOOKUP('table' = 'c', 'retry' = 'x') */ a.x FROM a JOIN b ON a.x = b.x
--> Query
-->   query: (Select [a.x] hint=(Hint [BROADCAST(a, b) LOOKUP((EQ 'table' 'c'), (EQ 'retry' 'x'))]) from_=(From (Table a)) joins=[(Join (Table b) kind=INNER on=(EQ a.x b.x))])

SELECT *
FROM t MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES A.ts AS s, LAST(B.v, 1) AS e, FINAL SUM(B.v) AS f
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO FIRST B
  PATTERN (A B+? (C | D){2,3} E*) WITHIN INTERVAL '1' HOUR
  SUBSET U = (A, B)
  DEFINE B AS B.v > PREV(B.v)
) AS m
--> Query
-->   query: (Select [(Star)] from_=(From (Table t match=(MatchRecognize partition_by=[k] order=(Order [(Ordered ts nulls_first=True)]) measures=[(Alias A.ts alias=s) (Alias LAST(B.v, 1) alias=e) (Alias (Modified SUM(B.v) kind=FINAL) alias=f)] rows=Var:ONE after=(Skip kind=FIRST B) pattern=(PatternSequence [A (PatternRepeat B low=1 reluctant=True) (PatternRepeat (Paren (PatternChoice [C D])) low=2 high=3) (PatternRepeat E low=0)]) within=Interval:3600000 ms subset=[(PatternSubset U [A B])] define=[(Alias (GT B.v PREV(B.v)) alias=B)]) alias=(TableAlias m))))

SELECT * FROM t AS u MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS v PATTERN (A [^B] C+?) DEFINE B AS TRUE)
--> Query
-->   query: (Select [(Star)] from_=(From (Table t match=(MatchRecognize order=(Order [(Ordered ts nulls_first=True)]) measures=[(Alias A.v alias=v)] pattern=(PatternSequence [A (PatternAbsence B) (PatternRepeat C low=1 reluctant=True)]) define=[(Alias Boolean:True alias=B)]))))

SELECT a, COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b), ROLLUP (c, (d, e)), ()), CUBE (f)
--> Query
-->   query: (Select [a COUNT((Star))] from_=(From (Table t)) group=(Group [(GroupingSets [(Tuple [a b]) (Rollup [c (Tuple [d e])]) (Tuple)]) (Cube [f])]))

SELECT SUM(a) FILTER (WHERE b) OVER (PARTITION BY c ORDER BY d DESC ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING), LISTAGG(a, ',') WITHIN GROUP (ORDER BY b), FIRST_VALUE(a) IGNORE NULLS OVER w FROM t WINDOW w AS (ORDER BY d) QUALIFY x > 1
--> Query
-->   query: (Select [(Window partition_by=[c] order=(Order [(Ordered d desc=True)]) spec=(WindowSpec kind=ROWS start=1 start_side=PRECEDING end=UNBOUNDED end_side=FOLLOWING) over=OVER (Filter SUM(a) (Where b))) (WithinGroup LISTAGG(a, ',') (Order [(Ordered b nulls_first=True)])) (Window alias=w (IgnoreNulls FIRST_VALUE(a)))] from_=(From (Table t)) windows=[(Window order=(Order [(Ordered d nulls_first=True)]) over=OVER w)] qualify=(Qualify (GT x 1)))

SELECT * FROM TABLE(f(TABLE c.d.t PARTITION BY (a, b) ORDER BY ts DESC, in2 => TABLE u, uid => 'x', col => DESCRIPTOR(p, q), MODEL m.n)) AS r (x)
--> Query
-->   query: (Select [(Star)] from_=(From (TableFromRows F((Table t db=d catalog=c partition=(Partition [a b]) order=(Order [(Ordered ts desc=True)])), (Kwarg Var:in2 (Table u)), (Kwarg Var:uid 'x'), (Kwarg Var:col DESCRIPTOR(p, q)), (Model n db=m)) alias=(TableAlias r columns=[x]))))

SELECT * FROM o JOIN r FOR SYSTEM_TIME AS OF o.pt AS d ON o.k = d.k, LATERAL TABLE(f(o.a)) AS x, UNNEST(o.b) WITH ORDINALITY AS y (p, q)
--> Query
-->   query: (Select [(Star)] from_=(From (Table o)) joins=[(Join (Table r version=(Version SYSTEM_TIME o.pt) alias=(TableAlias d)) kind=INNER on=(EQ o.k d.k)) (Join (Lateral F(o.a) alias=(TableAlias x))) (Join (Unnest [o.b] offset=True alias=(TableAlias y columns=[p q])))])

WITH RECURSIVE a (x) AS (VALUES (1)) SELECT x FROM a INTERSECT ALL SELECT 2 ORDER BY x NULLS LAST LIMIT 5 OFFSET 2
--> Query
-->   query: (Intersect (Select [x] from_=(From (Table a))) (Select [2]) with_=(With [(CTE (Values [(Tuple [1])]) alias=(TableAlias a columns=[x]))] recursive=True) order=(Order [(Ordered x)]) limit=(Limit 5) offset=(Offset 2))

SELECT * FROM t PIVOT (SUM(a) AS s FOR b IN (1 AS one_, (2))) AS p, u TABLESAMPLE BERNOULLI (10) REPEATABLE (3)
--> Query
-->   query: (Select [(Star)] from_=(From (Table t pivots=[(Pivot [(Alias SUM(a) alias=s)] columns=[b] values=[(Alias 1 alias=one_) 2])] alias=(TableAlias p))) joins=[(Join (Table u sample=(Sample method=BERNOULLI size=10 seed=3)))])

SELECT JSON_VALUE(a, '$.x' RETURNING INT DEFAULT 1 ON EMPTY ERROR ON ERROR), JSON_QUERY(a, '$' WITH CONDITIONAL ARRAY WRAPPER EMPTY ARRAY ON EMPTY), JSON_OBJECT(KEY 'a' VALUE b FORMAT JSON ABSENT ON NULL), JSON_ARRAYAGG(a ORDER BY b NULL ON NULL) FROM t
--> Query
-->   query: (Select [JSON_VALUE(a, '$.x', (Kwarg Var:RETURNING <INT>), (Kwarg Var:ON_EMPTY 1), (Kwarg Var:ON_ERROR Var:ERROR)) JSON_QUERY(a, '$', (Kwarg Var:WRAPPER Var:CONDITIONAL), (Kwarg Var:ON_EMPTY Var:EMPTY_ARRAY)) JSON_OBJECT('a', (FormatJson b), (Kwarg Var:ON_NULL Var:ABSENT)) JSON_ARRAYAGG(a, (Order [(Ordered b nulls_first=True)]), (Kwarg Var:ON_NULL Var:NULL))] from_=(From (Table t)))

SELECT a MULTISET UNION DISTINCT b, a MEMBER OF b, a IS A SET, a IS NOT JSON OBJECT, (a, b) OVERLAPS (c, d), PERIOD (a, b) IMMEDIATELY PRECEDES c, a RLIKE 'x', a NOT ILIKE 'y', (a - b) DAY TO SECOND, INTERVAL (a + 1) MINUTE, +a, N'x', _UTF8'y', U&'\00e9!' FROM t
--> Query
-->   query: (Select [(MultisetOperation a b kind=UNION distinct=True) (MemberOf a b) (Is a Var:A_SET) (Not (Is a Var:JSON_OBJECT)) (Overlaps (Tuple [a b]) (Tuple [c d])) (PeriodPredicate PERIOD(a, b) c kind=IMMEDIATELY_PRECEDES) (RegexpLike a 'x') (Not (ILike a 'y')) (Difference a b unit=(IntervalSpan Var:DAY Var:SECOND)) (Interval (Paren (Add a 1)) unit=Var:MINUTE) (Plus a) (National 'x') (Introducer Var:UTF8 'y') 'é!'] from_=(From (Table t)))

SELECT STREAM CAST(a AS ROW<b INT, c ARRAY<STRING NOT NULL>>), TRY_CAST(a AS INTERVAL DAY(2) TO SECOND(3)), TRIM(LEADING FROM a), TRIM(a), POSITION('x' IN a FROM 2), EXTRACT(WEEK(MONDAY) FROM a), CEIL(a TO DAY), TIMESTAMPADD(MONTH, 1, a) FROM t
--> Query
-->   query: (Select kind=STREAM [(Cast a to=<ROW<`b` INT, `c` ARRAY<STRING NOT NULL>>>) (TryCast a to=<INTERVAL SECOND(3)>) TRIM(Var:LEADING, ' ', a) TRIM(a) POSITION('x', a, 2) EXTRACT(WEEK(Var:MONDAY), a) CEIL(a, Var:DAY) TIMESTAMPADD(Var:MONTH, 1, a)] from_=(From (Table t)))
