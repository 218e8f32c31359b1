-- Rows a century ahead, and such without a time, are set aside: they move no watermark.
CREATE TABLE many (ts TIMESTAMP(3), k STRING, v INT,
  due AS CASE WHEN v = 3 THEN ts + INTERVAL '99' YEAR WHEN v <> 2 THEN ts END, WATERMARK FOR due AS due - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/many', 'format' = 'json', 'scan.watermark.max-future' = '1 h');
CREATE TABLE single (ts TIMESTAMP(3), k STRING, v INT,
  due AS CAST(IF(v = 4, ts + INTERVAL '99' YEAR, ts) AS TIMESTAMP_LTZ(3)), WATERMARK FOR due AS due - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/one', 'format' = 'json');
CREATE TABLE counts (name STRING, s STRING, k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${OUT}/counts', 'format' = 'json');

SET 'job.on-error' = 'dead-letter';
SET 'table.exec.source.max-future' = '1 d';
EXECUTE STATEMENT SET BEGIN
INSERT INTO counts SELECT 'many', CAST(window_start AS STRING), k, COUNT(*)
FROM TABLE(TUMBLE(TABLE many, DESCRIPTOR(due), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
INSERT INTO counts SELECT 'one', CAST(window_start AS STRING), k, COUNT(*)
FROM TABLE(TUMBLE(TABLE single, DESCRIPTOR(due), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
END;
SELECT k, v FROM many WHERE v > 2;
