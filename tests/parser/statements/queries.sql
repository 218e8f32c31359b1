SELECT ALL a, b AS c, d e, t.*, * FROM t WHERE a > 1 GROUP BY a HAVING COUNT(*) > 1
--> Query
-->   query: (Select [a (Alias b alias=c) (Alias d alias=e) (Column (Star) table=t) (Star)] from_=(From (Table t)) where=(Where (GT a 1)) group=(Group [a]) having=(Having (GT COUNT((Star)) 1)))

SELECT window_start, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' SECOND)) AS w
GROUP BY window_start, window_end
--> Query
-->   query: (Select [window_start (Alias COUNT((Star)) alias=n)] from_=(From (TableFromRows TUMBLE((Table bids), DESCRIPTOR(ts), Interval:10000 ms, Interval:1000 ms) alias=(TableAlias w))) group=(Group [window_start window_end]))

SELECT * FROM TUMBLE(DATA => TABLE c.d.bids, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND)
--> Query
-->   query: (Select [(Star)] from_=(From (TableFromRows TUMBLE((Kwarg Var:DATA (Table bids db=d catalog=c)), (Kwarg Var:TIMECOL DESCRIPTOR(ts)), (Kwarg Var:SIZE Interval:10000 ms)))))

SELECT * FROM TABLE(SESSION(TABLE bids PARTITION BY (a, b), DESCRIPTOR(ts), INTERVAL '10' SECOND))
--> Query
-->   query: (Select [(Star)] from_=(From (TableFromRows SESSION((Table bids partition=(Partition [a b])), DESCRIPTOR(ts), Interval:10000 ms))))

SELECT TUMBLE_START(ts, INTERVAL '1' DAY) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY), k
--> Query
-->   query: (Select [TUMBLE_START(ts, Interval:86400000 ms)] from_=(From (Table t)) group=(Group [TUMBLE(ts, Interval:86400000 ms) k]))

WITH a AS (SELECT 1), b (x) AS (SELECT 2) SELECT * FROM a UNION ALL SELECT * FROM b
--> Query
-->   query: (Union (Select [(Star)] from_=(From (Table a))) (Select [(Star)] from_=(From (Table b))) with_=(With [(CTE (Select [1]) alias=(TableAlias a)) (CTE (Select [2]) alias=(TableAlias b columns=[x]))]))

SELECT 1 UNION SELECT 2 INTERSECT ALL SELECT 3 EXCEPT SELECT 4
--> Query
-->   query: (Except (Union (Select [1]) distinct=True (Intersect (Select [2]) (Select [3]))) distinct=True (Select [4]))

(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT b FROM u) ORDER BY 1 DESC NULLS LAST OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY
--> Query
-->   query: (Union (Subquery (Select [a] from_=(From (Table t)) order=(Order [(Ordered a nulls_first=True)]) limit=(Limit 1))) (Subquery (Select [b] from_=(From (Table u)))) order=(Order [(Ordered 1 desc=True)]) offset=(Offset 2) limit=(Limit 3))

SELECT * FROM (VALUES (1, 'a'), ROW(2, 'b')) AS t (x, y), (SELECT 1) AS u
--> Query
-->   query: (Select [(Star)] from_=(From (Subquery (Values [(Tuple [1 'a']) (Tuple [2 'b'])]) alias=(TableAlias t columns=[x y]))) joins=[(Join (Subquery (Select [1]) alias=(TableAlias u)))])

VALUES 1, (2), (3, 4)
--> Query
-->   query: (Values [(Tuple [1]) (Tuple [2]) (Tuple [3 4])])

SELECT * FROM a JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (y) CROSS JOIN d, e NATURAL FULL JOIN f
--> Query
-->   query: (Select [(Star)] from_=(From (Table a)) joins=[(Join (Table b) kind=INNER on=(EQ a.x b.x)) (Join (Table c) side=LEFT using=[y]) (Join (Table d) kind=CROSS) (Join (Table e)) (Join (Table f) side=FULL method=NATURAL)])

SELECT * FROM o /*+ OPTIONS('a'='b') */ JOIN r FOR SYSTEM_TIME AS OF o.p AS s ON o.x = s.x
--> Query
-->   query: (Select [(Star)] from_=(From (Table o hints=[(Hint [OPTIONS((EQ 'a' 'b'))])])) joins=[(Join (Table r version=(Version SYSTEM_TIME o.p) alias=(TableAlias s)) kind=INNER on=(EQ o.x s.x))])

SELECT * FROM t, LATERAL TABLE(f(t.a)) AS x (b), UNNEST(t.c) WITH ORDINALITY AS y (d, i), (a CROSS JOIN b)
--> Query
-->   query: (Select [(Star)] from_=(From (Table t)) joins=[(Join (Lateral F(t.a) alias=(TableAlias x columns=[b]))) (Join (Unnest [t.c] offset=True alias=(TableAlias y columns=[d i]))) (Join (Subquery (Table a joins=[(Join (Table b) kind=CROSS)])))])

SELECT SUM(a) OVER w FROM t GROUP BY GROUPING SETS ((a, b), ()), CUBE (c), ROLLUP (d) WINDOW w AS (PARTITION BY a)
--> Query
-->   query: (Select [(Window alias=w SUM(a))] from_=(From (Table t)) group=(Group [(GroupingSets [(Tuple [a b]) (Tuple)]) (Cube [c]) (Rollup [d])]) windows=[(Window partition_by=[a] over=OVER w)])

TABLE t
--> Query
-->   query: (Select [(Star)] from_=(From (Table t)))

SELECT DISTINCT a FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY b) = 1
--> Query
-->   query: (Select [a] distinct=(Distinct) from_=(From (Table t)) qualify=(Qualify (EQ (Window order=(Order [(Ordered b nulls_first=True)]) over=OVER ROW_NUMBER()) 1)))
