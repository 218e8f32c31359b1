CREATE TEMPORARY FUNCTION timing AS '${MODULE}timing' LANGUAGE ${LANGUAGE};
CREATE TEMPORARY FUNCTION counted AS '${MODULE}counted' LANGUAGE ${LANGUAGE};
SET 'pipeline.auto-watermark-interval' = '0';
CREATE TEMPORARY TABLE moves (name STRING, what STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/moves.json', 'format' = 'json');
CREATE TEMPORARY TABLE zoned (name STRING, what STRING, ts TIMESTAMP(3), `at` AS CAST(ts AS TIMESTAMP_LTZ(3)), WATERMARK FOR `at` AS `at` - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/moves.json', 'format' = 'json');
SELECT * FROM timing(r => TABLE moves PARTITION BY name, on_time => DESCRIPTOR(ts));
SELECT * FROM timing(r => TABLE moves, on_time => DESCRIPTOR(ts));
SELECT name, said, `watermark`, rowtime FROM timing(r => TABLE zoned PARTITION BY name, on_time => DESCRIPTOR(`at`)) WHERE said LIKE 'timer%';

SELECT * FROM counted(r => TABLE moves PARTITION BY name ORDER BY ts);
SELECT * FROM timing(r => TABLE moves PARTITION BY name ORDER BY (ts, what DESC), on_time => DESCRIPTOR(ts));
SELECT said, n, rowtime FROM timing(r => TABLE zoned ORDER BY `at`, on_time => DESCRIPTOR(`at`));
