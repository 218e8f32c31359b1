lower(`Image`) LIKE '%\\cmd.exe' ESCAPE '\'
--> (Escape (Like LOWER(Image) '%\\cmd.exe') '\')

CIDR_MATCH(ip, '10.0.0.0/8') AND REGEXP(a, '\d+')
--> (And CIDR_MATCH(ip, '10.0.0.0/8') REGEXP(a, '\d+'))

CURRENT_TIMESTAMP > PI
--> (GT CURRENT_TIMESTAMP() PI())

COUNT(*) + COUNT(DISTINCT a) + SUM(ALL b) FILTER (WHERE c > 1)
--> (Add (Add COUNT((Star)) COUNT((Distinct [a]))) (Filter SUM(b) (Where (GT c 1))))

TRIM(a) || TRIM('x' FROM a) || TRIM(LEADING FROM a) || TRIM(BOTH 'y' FROM a)
--> (DPipe (DPipe (DPipe TRIM(a) TRIM(Var:BOTH, 'x', a)) TRIM(Var:LEADING, ' ', a)) TRIM(Var:BOTH, 'y', a))

EXTRACT(DAY FROM ts) + POSITION('x' IN a) + YEAR(ts) + MOD(a, 2)
--> (Add (Add (Add EXTRACT(Var:DAY, ts) POSITION('x', a)) YEAR(ts)) MOD(a, 2))

SUBSTRING(a FROM 1 FOR 2) || SUBSTRING(a, 1) || OVERLAY(a PLACING b FROM 1)
--> (DPipe (DPipe SUBSTRING(a, 1, 2) SUBSTRING(a, 1)) OVERLAY(a, b, 1))

CEIL(ts TO DAY) = FLOOR(a) AND TIMESTAMPADD(DAY, 1, ts) > ts
--> (And (EQ CEIL(ts, Var:DAY) FLOOR(a)) (GT TIMESTAMPADD(Var:DAY, 1, ts) ts))

IF(a, 1, 2) + COALESCE(a, b) + LEFT(a, 1)
--> (Add (Add IF(a, 1, 2) COALESCE(a, b)) LEFT(a, 1))

f(a => 1, b => DEFAULT)
--> F((Kwarg Var:a 1), (Kwarg Var:b Var:DEFAULT))

cat.db.my_function(a) + `quoted`(b)
--> (Add cat.db.MY_FUNCTION(a) QUOTED(b))

TUMBLE(ts, INTERVAL '1' DAY)
--> TUMBLE(ts, Interval:86400000 ms)

SUM(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
--> (Window partition_by=[b] order=(Order [(Ordered c nulls_first=True)]) spec=(WindowSpec kind=ROWS start=2 start_side=PRECEDING end=CURRENT_ROW) over=OVER SUM(a))

LAG(a) IGNORE NULLS OVER w
--> (Window alias=w (IgnoreNulls LAG(a)))

ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)
--> (Window partition_by=[a] order=(Order [(Ordered b desc=True)]) over=OVER ROW_NUMBER())

JSON_VALUE(a, '$.x' RETURNING INT DEFAULT 1 ON EMPTY ERROR ON ERROR)
--> JSON_VALUE(a, '$.x', (Kwarg Var:RETURNING <INT>), (Kwarg Var:ON_EMPTY 1), (Kwarg Var:ON_ERROR Var:ERROR))

JSON_QUERY(a, '$.x' WITH CONDITIONAL WRAPPER)
--> JSON_QUERY(a, '$.x', (Kwarg Var:WRAPPER Var:CONDITIONAL))

JSON_OBJECT(KEY 'a' VALUE 1, 'b' VALUE 2 ABSENT ON NULL)
--> JSON_OBJECT('a', 1, 'b', 2, (Kwarg Var:ON_NULL Var:ABSENT))

CONVERT(VARCHAR(3), a)
--> (Cast a to=<VARCHAR(3)>)

CONVERT(INT, a) + CONVERT(b, c)
--> (Add (Cast a to=<INT>) CONVERT(b, c))
