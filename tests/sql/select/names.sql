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
