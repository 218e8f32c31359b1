CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

CREATE VIEW positive AS SELECT id, a, s FROM t WHERE a > 0;
SELECT * FROM positive;
CREATE VIEW named (number, word) AS SELECT id, UPPER(s) FROM positive;
SELECT word, number FROM named WHERE number > 1;
CREATE VIEW deeper AS SELECT number * 2 AS twice, word || '!' AS loud FROM named;
SELECT * FROM deeper;
SELECT v.twice FROM deeper AS v WHERE v.twice < 12;
CREATE TEMPORARY VIEW temporary_one AS SELECT 1 AS x;
SELECT * FROM temporary_one;
CREATE VIEW IF NOT EXISTS positive AS SELECT id FROM t;
SELECT * FROM positive WHERE id = 1;
CREATE VIEW positive AS SELECT id FROM t;
CREATE VIEW bad (x, y) AS SELECT id FROM t;
CREATE VIEW unknown_inside AS SELECT nothing FROM t;
CREATE VIEW over_cte AS WITH c AS (SELECT id FROM t WHERE bo) SELECT id AS yes FROM c;
SELECT yes FROM over_cte;
-- rowsort
SELECT id FROM positive UNION ALL SELECT twice FROM deeper;
DROP VIEW deeper;
SELECT * FROM deeper;
DROP VIEW IF EXISTS deeper;
DROP VIEW deeper;
