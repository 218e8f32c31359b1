-- Two aggregates by different keys and a filter over one scan; then a second set that writes to one of its tables.
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/one', 'format' = 'json');
CREATE TABLE by_k (since TIMESTAMP(3), k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/by_k', 'format' = 'csv');
CREATE TABLE by_v (v INT, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'by_v', 'format' = 'json', 'key.fields' = 'v');
CREATE TABLE few (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/few', 'format' = 'json');
CREATE TABLE none (k STRING) WITH ('connector' = 'blackhole');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO by_k SELECT window_start, k, COUNT(*)
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;
  INSERT INTO by_v SELECT v, COUNT(*)
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, v;
  INSERT INTO few SELECT k, v FROM t WHERE v = 7;
  INSERT INTO none SELECT k FROM t;
END;

EXECUTE STATEMENT SET BEGIN
  INSERT INTO few SELECT k, v FROM t WHERE k = 'a' AND v < 2;
  INSERT INTO few SELECT 'b', v FROM t WHERE k = 'b' AND v < 2;
END;
