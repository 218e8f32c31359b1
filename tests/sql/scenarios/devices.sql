SET 'pipeline.auto-watermark-interval' = '0';
SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE iot (dev STRING, temp DOUBLE, hum INT, st STRING, seq INT, epoch_ms BIGINT, lt AS TO_TIMESTAMP_LTZ(epoch_ms, 3), pt AS PROCTIME(), WATERMARK FOR lt AS lt - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_iot.json', 'format' = 'json');
CREATE TABLE raws (dev STRING, temp FLOAT, hum SMALLINT, st STRING, seq INT, epoch_ms BIGINT, ts STRING, t3 AS TO_TIMESTAMP(ts), WATERMARK FOR t3 AS t3 - INTERVAL '20' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/real_iot.json', 'format' = 'json');
SELECT dev, lt, temp FROM iot WHERE temp IS NOT NULL;
-- rowsort
SELECT window_start, window_end, window_time, dev, COUNT(*) AS n, AVG(temp) AS a, MAX(temp) - MIN(temp) AS spread FROM TABLE(TUMBLE(TABLE iot, DESCRIPTOR(lt), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time, dev;
SELECT window_start, window_end, COUNT(*) AS n, SUM(hum) AS h FROM TABLE(CUMULATE(TABLE iot, DESCRIPTOR(lt), INTERVAL '1' MINUTE, INTERVAL '1' DAY)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE iot, DESCRIPTOR(lt), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, dev, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE iot, DESCRIPTOR(lt), INTERVAL '1' HOUR, INTERVAL '15' MINUTE)) GROUP BY window_start, window_end, dev;
SELECT dev, window_start, window_end, COUNT(*) AS n, MAX(temp) AS m FROM TABLE(SESSION(TABLE iot PARTITION BY dev, DESCRIPTOR(lt), INTERVAL '45' SECOND)) GROUP BY dev, window_start, window_end;
-- rowsort
SELECT dev, lt, temp, AVG(temp) OVER (PARTITION BY dev ORDER BY lt RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW) AS roll, COUNT(*) OVER (PARTITION BY dev ORDER BY lt RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW) AS n FROM iot;
-- rowsort
SELECT dev, lt, temp, LAG(temp, 1) OVER (PARTITION BY dev ORDER BY lt) AS p FROM iot;
-- rowsort
SELECT dev, lt, temp - LAG(temp) OVER (PARTITION BY dev ORDER BY lt) AS d FROM iot;
SELECT dev, seq, temp FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY dev ORDER BY lt DESC) AS rn FROM iot) WHERE rn = 1;
SELECT dev, seq, temp FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY dev ORDER BY lt ASC) AS rn FROM iot) WHERE rn = 1;
SELECT dev, seq FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY dev ORDER BY pt DESC) AS rn FROM iot) WHERE rn = 1;
SELECT dev, seq FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY dev ORDER BY pt) AS rn FROM iot) WHERE rn = 1;
SELECT dev, st, COUNT(*) AS n, ROUND(AVG(temp), 2) AS a, STDDEV_POP(temp) AS sd, VAR_SAMP(temp) AS v FROM iot GROUP BY dev, st;
SELECT dev, COUNT(*) AS n, COUNT(temp) AS c, SUM(temp) AS s, AVG(hum) AS h, MIN(lt) AS f, MAX(lt) AS l FROM iot GROUP BY dev;
SELECT DATE_FORMAT(lt, 'yyyy-MM-dd HH:mm') AS m, COUNT(*) AS n FROM iot GROUP BY DATE_FORMAT(lt, 'yyyy-MM-dd HH:mm');
SELECT FLOOR(lt TO MINUTE) AS m, MAX(temp) AS t FROM iot GROUP BY FLOOR(lt TO MINUTE);
SELECT CAST(lt AS DATE) AS d, EXTRACT(HOUR FROM lt) AS h, HOUR(CAST(lt AS TIMESTAMP(3))) AS h2, COUNT(*) AS n FROM iot GROUP BY CAST(lt AS DATE), EXTRACT(HOUR FROM lt), HOUR(CAST(lt AS TIMESTAMP(3)));
SELECT CAST(lt AS TIMESTAMP(3)) AS a, CAST(lt AS STRING) AS b, lt + INTERVAL '1' DAY AS c, TIMESTAMPADD(HOUR, 5, lt) AS d, TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-06-01 04:00:00', CAST(lt AS TIMESTAMP(3))) AS e FROM iot WHERE seq < 8;
SELECT * FROM iot MATCH_RECOGNIZE (PARTITION BY dev ORDER BY lt MEASURES FIRST(UP.temp) AS lo, LAST(UP.temp) AS hi, COUNT(*) AS n, MATCH_ROWTIME() AS mt ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (S UP+ DN) DEFINE UP AS UP.temp > LAST(UP.temp, 1) OR (LAST(UP.temp, 1) IS NULL AND UP.temp > S.temp), DN AS DN.temp < LAST(UP.temp));
-- rowsort
SELECT dev, island, COUNT(*) AS n, MIN(seq) AS f, MAX(seq) AS l FROM (SELECT dev, st, seq, SUM(chg) OVER (PARTITION BY dev ORDER BY t3) AS island FROM (SELECT dev, st, seq, t3, CASE WHEN st IS DISTINCT FROM LAG(st) OVER (PARTITION BY dev ORDER BY t3) THEN 1 ELSE 0 END AS chg FROM raws)) GROUP BY dev, island;
-- rowsort
SELECT dev, t3, st, TIMESTAMPDIFF(SECOND, LAG(t3) OVER (PARTITION BY dev ORDER BY t3), t3) AS gap FROM raws;
SELECT dev, t3, gap FROM (SELECT dev, t3, TIMESTAMPDIFF(SECOND, LAG(t3) OVER (PARTITION BY dev ORDER BY t3), t3) AS gap FROM raws) WHERE gap > 30;
-- rowsort
SELECT window_start, dev, temp, hum FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, dev ORDER BY temp DESC, seq) AS rn FROM TABLE(TUMBLE(TABLE raws, DESCRIPTOR(t3), INTERVAL '2' MINUTE))) WHERE rn = 1;
SELECT ws, we, SUM(n) AS n FROM (SELECT window_start AS ws, window_end AS we, n FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE raws, DESCRIPTOR(t3), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '2' MINUTE))) GROUP BY ws, we;
SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE raws, DESCRIPTOR(t3), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end;
-- rowsort
SELECT TUMBLE_START(t3, INTERVAL '1' MINUTE) AS s, TUMBLE_END(t3, INTERVAL '1' MINUTE) AS e, dev, COUNT(*) AS n, AVG(temp) AS a FROM raws GROUP BY TUMBLE(t3, INTERVAL '1' MINUTE), dev;
-- rowsort
SELECT HOP_START(t3, INTERVAL '30' SECOND, INTERVAL '1' MINUTE) AS s, st, COUNT(*) AS n FROM raws GROUP BY HOP(t3, INTERVAL '30' SECOND, INTERVAL '1' MINUTE), st;
SELECT SESSION_START(t3, INTERVAL '20' SECOND) AS s, SESSION_END(t3, INTERVAL '20' SECOND) AS e, SESSION_ROWTIME(t3, INTERVAL '20' SECOND) AS r, COUNT(*) AS n FROM raws GROUP BY SESSION(t3, INTERVAL '20' SECOND);
SELECT dev, MAX(temp) FILTER (WHERE st = 'on') AS on_max, MAX(temp) FILTER (WHERE st = 'off') AS off_max FROM raws GROUP BY dev;
SELECT temp, hum, temp * 1.8 + 32 AS f, hum / 7 AS q, MOD(hum, 7) AS r, CAST(temp AS DECIMAL(6, 1)) AS d, ROUND(temp, 1) AS ro, CEIL(temp) AS ce, CAST(temp AS INT) AS i, CAST(temp AS STRING) AS s FROM raws WHERE seq <= 12;
SELECT DISTINCT dev, st FROM raws;
SELECT st, hum, COUNT(DISTINCT dev) AS d, COUNT(*) AS n FROM raws GROUP BY GROUPING SETS ((st, hum), (st), ()) HAVING COUNT(*) > 3;
SELECT dev, LISTAGG(st, '>') AS path, CAST(COUNT(*) AS INT) AS n FROM (SELECT * FROM raws WHERE st IS NOT NULL) GROUP BY dev;
SELECT dev, FIRST_VALUE(temp) AS f, LAST_VALUE(temp) AS l FROM raws GROUP BY dev;
-- rowsort
SELECT window_start, dev, FIRST_VALUE(st) AS f, LAST_VALUE(st) AS l, LISTAGG(DISTINCT st) AS s FROM TABLE(TUMBLE(TABLE raws, DESCRIPTOR(t3), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, dev;
SELECT PERCENTILE(hum, ARRAY[0.25, 0.75]) AS p FROM raws;
SELECT dev, temp FROM raws ORDER BY t3;
SELECT dev, t3, temp FROM raws ORDER BY t3, dev DESC;
-- rowsort
SELECT window_start, window_end, dev, COUNT(*) AS n FROM TABLE(HOP(TABLE raws, DESCRIPTOR(t3), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)) GROUP BY GROUPING SETS ((window_start, window_end, dev), (window_start, window_end));
