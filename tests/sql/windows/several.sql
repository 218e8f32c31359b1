SET 'pipeline.auto-watermark-interval' = '0';
CREATE TABLE e (
  ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

CREATE TABLE o1 (ws TIMESTAMP(3), k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/o1', 'format' = 'json');
CREATE TABLE o2 (ws TIMESTAMP(3), s INT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/o2', 'format' = 'json');
CREATE TABLE o3 (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/o3', 'format' = 'json');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO o1 SELECT window_start, k, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
  INSERT INTO o2 SELECT window_start, SUM(v) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
  INSERT INTO o3 SELECT k, v FROM e WHERE v > 5;
END;
-- rowsort
SELECT * FROM o1;
SELECT * FROM o2;
SELECT * FROM o3;
-- rowsort
SELECT window_start, n FROM (SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end UNION ALL SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end);
