CREATE TABLE z (i INT, x DOUBLE, y DOUBLE, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${DATA}/zeros.json', 'format' = 'json');
CREATE VIEW firsts AS SELECT i, FIRST_VALUE(x) AS x FROM z WHERE x IS NOT NULL GROUP BY i;
-- materialized
SELECT i, x FROM firsts;
-- materialized
-- differs: the first nine of six rows are all of them; Flink does not find 0.0 again where -0.0 stands, and loses rows
SELECT i, x FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY x) AS n FROM firsts) WHERE n <= 9;
