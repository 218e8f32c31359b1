-- Subqueries, joins, sets, OVER, texts, times, JSON and collections over the data of business.sql.
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE li (l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipmode STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_lineitem.json', 'format' = 'json');
CREATE TABLE od (o_orderkey INT, o_custkey INT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING, o_comment STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_orders.json', 'format' = 'json');
CREATE TABLE cu (c_custkey INT, c_name STRING, c_nationkey INT, c_phone STRING, c_acctbal DECIMAL(15,2), c_mktsegment STRING)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_customer.json', 'format' = 'json');
CREATE TABLE na (n_nationkey INT, n_name STRING, n_regionkey INT)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_nation.json', 'format' = 'json');
CREATE TABLE su (s_suppkey INT, s_name STRING, s_nationkey INT, s_acctbal DECIMAL(15,2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_supplier.json', 'format' = 'json');
CREATE TABLE pa (p_partkey INT, p_name STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING, p_retailprice DECIMAL(15,2), p_attrs STRING, p_tags ARRAY<STRING>, p_dims ROW<w INT, h INT>, p_stock MAP<STRING, INT>)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_part.json', 'format' = 'json');
CREATE TABLE ps (ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/tpch_partsupp.json', 'format' = 'json');
SELECT s_name, (SELECT COUNT(*) FROM ps WHERE ps_suppkey = s_suppkey) AS n, (SELECT MAX(ps_supplycost) FROM ps WHERE ps_suppkey = s_suppkey AND ps_availqty > 50) AS m FROM su ORDER BY s_name;
SELECT s_name FROM su WHERE (SELECT COUNT(*) FROM ps WHERE ps_suppkey = s_suppkey) > 2 ORDER BY s_name;
SELECT c_custkey FROM cu WHERE c_acctbal > ALL (SELECT s_acctbal FROM su WHERE s_nationkey = c_nationkey) ORDER BY c_custkey;
SELECT c_custkey FROM cu WHERE c_acctbal > ANY (SELECT s_acctbal FROM su WHERE s_nationkey = c_nationkey) ORDER BY c_custkey;
SELECT c_custkey FROM cu WHERE (c_nationkey, c_mktsegment) IN (SELECT n_nationkey, 'BUILDING' FROM na) ORDER BY c_custkey;
SELECT c_custkey FROM cu WHERE (c_nationkey, c_mktsegment) NOT IN (SELECT n_nationkey, 'BUILDING' FROM na) ORDER BY c_custkey;
SELECT c_custkey, CASE WHEN EXISTS (SELECT 1 FROM od WHERE o_custkey = c_custkey) THEN 'y' ELSE 'n' END AS h FROM cu ORDER BY c_custkey;
SELECT c_custkey, c_custkey IN (SELECT o_custkey FROM od) AS i, c_nationkey IN (1, 2, NULL) AS j FROM cu ORDER BY c_custkey;
SELECT c_custkey FROM cu WHERE EXISTS (SELECT 1 FROM od WHERE o_custkey = c_custkey AND EXISTS (SELECT 1 FROM li WHERE l_orderkey = o_orderkey AND l_quantity > c_custkey)) ORDER BY 1;
SELECT c_custkey, t.o_orderkey FROM cu, LATERAL (SELECT o_orderkey FROM od WHERE o_custkey = c_custkey) AS t ORDER BY 1, 2;
SELECT c_custkey, t.s FROM cu LEFT JOIN LATERAL (SELECT SUM(o_totalprice) AS s FROM od WHERE o_custkey = c_custkey) AS t ON TRUE ORDER BY 1, 2;
SELECT o.o_orderkey, l.n FROM od o JOIN (SELECT l_orderkey, COUNT(*) AS n FROM li GROUP BY l_orderkey) l ON l.l_orderkey = o.o_orderkey AND l.n > 2 ORDER BY 1;
SELECT COALESCE(c.c_custkey, o.o_custkey) AS k, c.c_name, o.o_orderkey FROM cu c FULL OUTER JOIN od o ON c.c_custkey = o.o_custkey ORDER BY k, 3;
SELECT c.c_custkey, o.o_orderkey FROM cu c RIGHT JOIN od o ON c.c_custkey = o.o_custkey AND c.c_acctbal > 0 ORDER BY 2;
SELECT a.n_name, b.n_name FROM na a JOIN na b ON a.n_regionkey = b.n_regionkey AND a.n_nationkey < b.n_nationkey ORDER BY 1, 2;
SELECT a.n_name, b.n_name FROM na a CROSS JOIN na b WHERE a.n_nationkey + b.n_nationkey = 6 ORDER BY 1, 2;
SELECT * FROM na a NATURAL JOIN (SELECT n_nationkey, COUNT(*) AS c FROM (SELECT c_nationkey AS n_nationkey FROM cu) GROUP BY n_nationkey) AS b ORDER BY 1;
SELECT * FROM (SELECT n_regionkey AS r, n_name FROM na) JOIN (SELECT n_regionkey AS r, COUNT(*) AS c FROM na GROUP BY n_regionkey) USING (r) ORDER BY r, n_name;
SELECT a.o_orderkey, b.o_orderkey AS b FROM od a LEFT JOIN od b ON a.o_orderdate < b.o_orderdate AND a.o_custkey = b.o_custkey AND a.o_totalprice > b.o_totalprice ORDER BY 1, 2;
SELECT c_mktsegment, n_regionkey, COUNT(*) AS n, SUM(c_acctbal) AS s, GROUPING(c_mktsegment) AS g1, GROUPING(n_regionkey) AS g2, GROUPING_ID(c_mktsegment, n_regionkey) AS gid FROM cu LEFT JOIN na ON c_nationkey = n_nationkey GROUP BY CUBE(c_mktsegment, n_regionkey) ORDER BY gid, c_mktsegment, n_regionkey;
SELECT p_brand, p_container, p_type, MIN(p_size) AS a, MAX(p_retailprice) AS b FROM pa GROUP BY GROUPING SETS ((p_brand, p_container), (p_type), ROLLUP(p_brand, p_type)) ORDER BY 1, 2, 3, 4;
SELECT p_brand, COUNT(*) AS n FROM pa GROUP BY ROLLUP(p_brand) HAVING COUNT(*) > 2 OR GROUPING(p_brand) = 1 ORDER BY n, p_brand;
SELECT EXTRACT(YEAR FROM l_shipdate) AS y, l_shipmode, SUM(l_quantity) AS q FROM li GROUP BY GROUPING SETS ((EXTRACT(YEAR FROM l_shipdate), l_shipmode), (EXTRACT(YEAR FROM l_shipdate)), ()) ORDER BY y, l_shipmode;
SELECT o_custkey, o_orderkey, ROW_NUMBER() OVER w AS rn, RANK() OVER w AS rk, DENSE_RANK() OVER w AS dr, PERCENT_RANK() OVER w AS pr, CUME_DIST() OVER w AS cd, NTILE(2) OVER w AS nt FROM od WINDOW w AS (PARTITION BY o_orderstatus ORDER BY o_orderpriority, o_orderkey) ORDER BY o_orderkey;
SELECT o_orderkey, RANK() OVER (PARTITION BY o_orderstatus ORDER BY o_orderpriority) AS rk, DENSE_RANK() OVER (ORDER BY o_orderpriority DESC) AS dr, PERCENT_RANK() OVER (ORDER BY o_orderpriority) AS pr FROM od ORDER BY o_orderkey;
SELECT o_orderkey, SUM(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderkey ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a, MIN(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderkey ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS b, AVG(o_totalprice) OVER (ORDER BY o_orderkey ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS c FROM od ORDER BY o_orderkey;
SELECT o_orderkey, FIRST_VALUE(o_comment) OVER (PARTITION BY o_custkey ORDER BY o_orderkey) AS a, LAST_VALUE(o_comment) OVER (PARTITION BY o_custkey ORDER BY o_orderkey) AS b, FIRST_VALUE(o_comment) OVER (PARTITION BY o_custkey ORDER BY o_orderkey ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS c FROM od ORDER BY o_orderkey;
SELECT l_orderkey, l_linenumber, SUM(l_quantity) OVER (ORDER BY l_orderkey RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS a, COUNT(*) OVER (ORDER BY l_orderkey RANGE BETWEEN 2 FOLLOWING AND 4 FOLLOWING) AS b, MAX(l_quantity) OVER (ORDER BY l_orderkey) AS c FROM li ORDER BY 1, 2;
SELECT l_orderkey, l_linenumber, COUNT(*) OVER (ORDER BY l_shipdate RANGE BETWEEN INTERVAL '30' DAY PRECEDING AND CURRENT ROW) AS a FROM li ORDER BY 1, 2;
-- differs: Flink compiles no frame by the distance of TIMESTAMP
SELECT l_orderkey, l_linenumber, COUNT(*) OVER (PARTITION BY l_shipmode ORDER BY CAST(l_shipdate AS TIMESTAMP(3)) RANGE BETWEEN INTERVAL '90' DAY PRECEDING AND INTERVAL '90' DAY FOLLOWING) AS a FROM li ORDER BY 1, 2;
-- differs: Flink fails at a default of LAG that is a text of another length
SELECT l_orderkey, l_linenumber, LAG(l_shipdate, 2) OVER (PARTITION BY l_shipmode ORDER BY l_shipdate, l_orderkey, l_linenumber) AS a, LEAD(l_tax, 1) OVER (PARTITION BY l_shipmode ORDER BY l_shipdate, l_orderkey, l_linenumber) AS b, LAG(l_shipmode, 1, '-') OVER (ORDER BY l_orderkey, l_linenumber) AS c FROM li ORDER BY 1, 2;
-- differs: Flink has no DISTINCT in batch with OVER
SELECT l_shipmode, COUNT(DISTINCT l_suppkey) OVER (PARTITION BY l_shipmode) AS d, l_orderkey, l_linenumber FROM li ORDER BY l_orderkey, l_linenumber;
SELECT o_orderkey, LISTAGG(o_orderstatus) OVER (PARTITION BY o_custkey ORDER BY o_orderkey) AS l, COLLECT(o_orderstatus) OVER (PARTITION BY o_custkey ORDER BY o_orderkey ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM od ORDER BY o_orderkey;
SELECT o_orderkey, ARRAY_AGG(o_orderkey) OVER (PARTITION BY o_custkey ORDER BY o_orderkey) AS l FROM od ORDER BY o_orderkey;
-- differs: Flink finds no plan for ARRAY_AGG beside an aggregate of distinct values
SELECT o_custkey, ARRAY_AGG(DISTINCT o_orderstatus) AS a, ARRAY_AGG(o_totalprice) FILTER (WHERE o_totalprice > 50000) AS b, COUNT(*) FILTER (WHERE o_comment IS NULL) AS c FROM od GROUP BY o_custkey ORDER BY o_custkey;
SELECT STDDEV_SAMP(l_quantity) OVER (PARTITION BY l_shipmode ORDER BY l_orderkey, l_linenumber) AS s, VAR_POP(l_orderkey) OVER (PARTITION BY l_shipmode) AS v, l_orderkey, l_linenumber FROM li ORDER BY l_orderkey, l_linenumber;
SELECT * FROM (SELECT o_custkey, o_orderkey, o_totalprice, ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) AS rn FROM od) WHERE rn <= 2 ORDER BY o_custkey, rn;
SELECT * FROM (SELECT o_custkey, o_orderkey, ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) AS rn FROM od) WHERE rn = 2 ORDER BY o_custkey;
SELECT * FROM (SELECT o_custkey, o_orderkey, RANK() OVER (PARTITION BY o_orderstatus ORDER BY o_orderpriority) AS rn FROM od) WHERE rn BETWEEN 2 AND 6 ORDER BY o_orderkey;
SELECT o_custkey, o_orderkey FROM od QUALIFY ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) = 1 ORDER BY o_custkey;
-- differs: Flink fails at QUALIFY over a grouping
SELECT o_custkey, SUM(o_totalprice) AS s FROM od GROUP BY o_custkey QUALIFY RANK() OVER (ORDER BY SUM(o_totalprice) DESC) <= 3 ORDER BY s DESC;
SELECT DISTINCT o_orderstatus, o_orderpriority FROM od ORDER BY o_orderstatus DESC, o_orderpriority LIMIT 5 OFFSET 1;
SELECT o_orderkey FROM od ORDER BY o_totalprice DESC LIMIT 0;
SELECT o_orderkey FROM od ORDER BY o_totalprice DESC NULLS LAST OFFSET 5 ROWS FETCH NEXT 3 ROWS ONLY;
SELECT o_orderkey, o_comment FROM od ORDER BY o_comment NULLS LAST, o_orderkey LIMIT 12;
SELECT o_orderkey, UPPER(o_comment) AS o_comment FROM od ORDER BY o_comment DESC, o_orderkey;
SELECT o_orderstatus AS st, COUNT(*) AS n FROM od GROUP BY o_orderstatus ORDER BY COUNT(*) DESC, MAX(o_totalprice);
SELECT o_orderkey AS k, -o_totalprice AS p FROM od ORDER BY p + k;
SELECT o_orderkey AS k, o_totalprice AS o_orderkey FROM od ORDER BY o_orderkey;
SELECT o_custkey AS a, SUM(o_totalprice) AS b FROM od GROUP BY o_custkey ORDER BY b / 2, a * -1;
SELECT l_orderkey, CAST(l_extendedprice * l_quantity AS DECIMAL(20, 3)) AS a, l_extendedprice / l_quantity AS b, MOD(l_extendedprice, l_quantity) AS c, ROUND(l_extendedprice * l_tax, 1) AS d, TRUNCATE(l_extendedprice, -2) AS e, FLOOR(l_extendedprice) AS f, CEIL(l_discount) AS g, POWER(l_tax, 2) AS h, l_discount = 0.1 AS i FROM li WHERE l_linenumber = 1 ORDER BY 1;
SELECT SUM(l_extendedprice) / COUNT(*) AS a, AVG(l_extendedprice) AS b, SUM(l_tax) / SUM(l_discount) AS c, AVG(l_quantity * l_tax) AS d, MAX(l_extendedprice) - MIN(l_extendedprice) AS e, SUM(CAST(l_extendedprice AS DOUBLE)) > 0 AS f, SUM(CAST(l_quantity AS INT)) AS g FROM li;
SELECT l_shipmode, SUM(l_extendedprice * l_tax) FILTER (WHERE l_discount > 0.05) AS a, AVG(CAST(l_quantity AS FLOAT)) AS b, AVG(CAST(l_quantity AS TINYINT)) AS c, SUM(CAST(l_quantity AS SMALLINT)) AS d FROM li GROUP BY l_shipmode ORDER BY 1;
SELECT CAST(o_orderdate AS STRING) || '/' || o_orderstatus AS a, CONCAT_WS('|', o_comment, o_orderpriority, CAST(o_custkey AS STRING)) AS b, CONCAT(o_comment, 'x') AS c, TRIM(LEADING '1' FROM o_orderpriority) AS d, LEFT(o_orderpriority, 3) AS e, RIGHT(o_orderpriority, 3) AS f, ASCII(o_orderpriority) AS g, REPEAT(o_orderstatus, 2) AS h FROM od ORDER BY o_orderkey;
SELECT o_orderkey, o_comment LIKE '%re_u%' AS a, o_comment SIMILAR TO '(quick|special%)' AS b, REGEXP(o_comment, 'r.q') AS c, REGEXP_REPLACE(o_comment, '[aeiou]', '') AS d, o_comment LIKE '' AS e, NULLIF(o_comment, '') AS f, COALESCE(o_comment, o_orderstatus) AS g, IFNULL(o_comment, '?') AS h, o_orderpriority BETWEEN '1' AND '3' AS i FROM od ORDER BY 1;
SELECT o_orderkey, o_orderdate IS NOT DISTINCT FROM NULL AS a, o_orderdate IS DISTINCT FROM DATE '1995-01-01' AS b, (o_custkey > 5) IS NOT TRUE AS c, (o_custkey > 5) IS UNKNOWN AS d, NOT (o_custkey > 5 AND o_comment = 'quick') AS e FROM od ORDER BY 1;
SELECT TO_DATE('1995-0' || CAST(l_linenumber AS STRING) || '-01') AS a, TO_TIMESTAMP(CAST(l_shipdate AS STRING), 'yyyy-MM-dd') AS b, UNIX_TIMESTAMP(CAST(l_shipdate AS STRING), 'yyyy-MM-dd') AS c, DATE_FORMAT(CAST(l_shipdate AS STRING) || ' 10:00:00', 'HH:mm EEE') AS d, DAYOFYEAR(l_shipdate) AS e, DAYOFWEEK(l_shipdate) AS f, l_shipdate + INTERVAL '10' DAY > l_receiptdate AS g, (l_shipdate, l_receiptdate) OVERLAPS (l_commitdate, INTERVAL '5' DAY) AS h FROM li ORDER BY l_orderkey, l_linenumber;
SELECT MIN(l_shipdate) AS a, MAX(l_receiptdate) AS b, COUNT(DISTINCT EXTRACT(YEAR FROM l_shipdate)) AS c, MAX(l_receiptdate) > DATE '1998-01-01' AS d, TIMESTAMPDIFF(DAY, MIN(l_shipdate), MAX(l_shipdate)) AS e FROM li;
SELECT p_partkey, p_dims, p_tags, p_stock FROM pa ORDER BY p_partkey;
SELECT p_partkey, ROW(p_partkey, p_size) AS r, ARRAY[p_size, 0] AS a, MAP['k', p_size] AS m, (p_partkey, p_name) = (1, 'x') AS e FROM pa ORDER BY 1;
SELECT p_tags, COUNT(*) AS n FROM pa GROUP BY p_tags ORDER BY n, CARDINALITY(p_tags), p_tags[1], p_tags[2], p_tags[3];
-- differs: in Flink the field of a grouped ROW is not grouped
SELECT p_dims, COUNT(*) AS n FROM pa GROUP BY p_dims ORDER BY p_dims.w, p_dims.h;
SELECT DISTINCT p_dims.h AS h, p_stock['s'] AS s FROM pa ORDER BY h, s;
SELECT p_partkey, ARRAY_UNION(p_tags, ARRAY['z']) AS a, ARRAY_EXCEPT(p_tags, ARRAY['a']) AS b, ARRAY_INTERSECT(p_tags, ARRAY['a', 'b']) AS c, ARRAY_SORT(p_tags) AS d, ARRAY_SLICE(p_tags, 1, 2) AS e, ARRAY_MAX(p_tags) AS f, ARRAY_MIN(p_tags) AS g, ARRAY_REMOVE(p_tags, 'b') AS h, ARRAY_CONCAT(p_tags, p_tags) AS i, ARRAY_APPEND(p_tags, 'q') AS j, ARRAY_PREPEND(p_tags, 'q') AS k FROM pa ORDER BY 1;
SELECT p_partkey, MAP_UNION(p_stock, MAP['n', 100]) AS a, MAP_ENTRIES(p_stock) AS b, MAP_FROM_ARRAYS(ARRAY['x', 'y'], ARRAY[p_size, 1]) AS c, ELEMENT(ARRAY[p_size]) AS d, STR_TO_MAP('a=1,b=' || CAST(p_partkey AS STRING)) AS e, SPLIT(p_name, ' ') AS f FROM pa ORDER BY 1;
SELECT p_partkey, JSON_OBJECT('k' VALUE p_partkey, 'n' VALUE p_name NULL ON NULL) AS a, JSON_ARRAY(p_partkey, p_size ABSENT ON NULL) AS b, JSON_QUERY(p_attrs, '$.t' WITH WRAPPER) AS c, JSON_QUERY(p_attrs, '$.t[0]' WITH CONDITIONAL WRAPPER) AS d, p_attrs IS JSON AS e, p_attrs IS JSON OBJECT AS f, JSON_QUERY(p_attrs, '$.t' RETURNING ARRAY<STRING>) AS g, JSON_STRING(p_tags) AS h FROM pa ORDER BY 1;
