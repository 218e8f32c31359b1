CREATE TABLE t (
  id INT, a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, bo BOOLEAN,
  ts TIMESTAMP(3), dt DATE, tm TIME(0), lt TIMESTAMP_LTZ(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/t.json', 'format' = 'json');

CREATE TABLE low (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '${OUT}/low', 'format' = 'json');
CREATE TABLE high (id INT, a INT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/high', 'format' = 'json');
EXECUTE STATEMENT SET
BEGIN
  INSERT INTO low SELECT id, s FROM t WHERE id <= 3;
  INSERT INTO high SELECT id, a FROM t WHERE id > 3;
END;
SELECT * FROM low;
SELECT * FROM high;
BEGIN STATEMENT SET;
INSERT INTO low SELECT id + 10, UPPER(s) FROM t WHERE a > 5;
INSERT INTO high SELECT id + 10, a FROM t WHERE a > 5;
END;
-- rowsort
SELECT * FROM low;
-- rowsort
SELECT * FROM high;
EXECUTE STATEMENT SET BEGIN INSERT INTO low SELECT id + 20, s FROM t WHERE id = 1; INSERT INTO low SELECT id + 30, s FROM t WHERE id = 2; END;
-- rowsort
SELECT * FROM low;
EXECUTE STATEMENT SET BEGIN INSERT INTO low SELECT id, s FROM t; INSERT INTO nowhere SELECT id FROM t; END;
EXECUTE INSERT INTO high SELECT 99, 99;
-- rowsort
SELECT * FROM high;
