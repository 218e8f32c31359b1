CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

SELECT ID FROM t;
SELECT id FROM T;
SELECT Id as ID, iD FROM (SELECT id AS Id, a AS iD FROM t);
SELECT "id" FROM t;
SELECT `a b` FROM (SELECT a AS `a b` FROM t) WHERE id > 1;
SELECT `a b` + 1 AS `c.d` FROM (SELECT a AS `a b` FROM t);
SELECT `größe`, `名前` FROM (SELECT id AS `größe`, s AS `名前` FROM t);
sElEcT id fRoM t wHeRe id = 1;
SELECT id FROM t AS u WHERE t.id = 1;
SELECT id FROM t, ;
SELECT x FROM (SELECT id AS x, a AS x FROM t);
SELECT upper(s), Upper(s) AS u, char_length(s) FROM t WHERE id = 1;
SELECT `user`, `value`, `timestamp` FROM (SELECT id AS `user`, a AS `value`, b AS `timestamp` FROM t);
SELECT value FROM (SELECT id AS `value` FROM t);
-- What has no name is called by its place; where rows are grouped, by the names before it.
SELECT a, a, id + 1, id + 2 FROM t WHERE id = 1;
SELECT DISTINCT a, a, 1 FROM t WHERE id = 1;
SELECT a, a, MAX(id), MIN(id) FROM t WHERE id = 1 GROUP BY a;
SELECT x.id, y.id, COUNT(*), SUM(x.id), 1 FROM t x JOIN t y ON x.id = y.id WHERE x.id = 1 GROUP BY x.id, y.id;
SELECT a, a + 1, a, MIN(id), a + 2 FROM t WHERE id = 1 GROUP BY a;
SELECT a AS `EXPR$1`, MAX(id), MIN(id) FROM t WHERE id = 1 GROUP BY a;
SELECT 'x', 'x', MAX(id), MAX(id) FROM t WHERE id = 1;
SELECT a, a, 1 FROM t WHERE id = 1 GROUP BY ROLLUP (a);
