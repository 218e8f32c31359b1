-- Windows of odd sizes, and sets of grouping sets.
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, w DECIMAL(8, 2), ok BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
CREATE TABLE o (id INT, item STRING, who INT, amount INT, price DECIMAL(8, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders.json', 'format' = 'json');
CREATE TEMPORARY VIEW d AS SELECT * FROM (VALUES (TIMESTAMP '2024-01-15 10:00:00', 1), (TIMESTAMP '2024-01-31 23:59:59.999', 2), (TIMESTAMP '2024-02-01 00:00:00', 3), (TIMESTAMP '2024-02-29 12:00:00', 4), (TIMESTAMP '2024-12-31 12:00:00', 5), (TIMESTAMP '1969-12-31 23:00:00', 6)) AS t(ts, v);
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT HOP_START(ts, INTERVAL '2' SECOND, INTERVAL '5' SECOND) AS a, HOP_END(ts, INTERVAL '2' SECOND, INTERVAL '5' SECOND) AS b, SUM(v) AS s FROM e GROUP BY HOP(ts, INTERVAL '2' SECOND, INTERVAL '5' SECOND);
-- differs: Flink fails where windows of HOP leave gaps
-- rowsort
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '3' SECOND) AS a, HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '3' SECOND) AS b, SUM(v) AS s FROM e GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '3' SECOND);
-- rowsort
SELECT window_start, window_end, v FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '5' SECOND));
-- rowsort
SELECT window_start, window_end, v FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '3' SECOND));
-- rowsort
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, SUM(v) AS n FROM TABLE(TUMBLE(TABLE d, DESCRIPTOR(ts), INTERVAL '1' MONTH)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, SUM(v) AS n FROM TABLE(HOP(TABLE d, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '2' MONTH)) GROUP BY window_start, window_end;
-- differs: Flink takes months for as many milliseconds
-- rowsort
SELECT TUMBLE_START(ts, INTERVAL '1' MONTH) AS a, SUM(v) AS n FROM d GROUP BY TUMBLE(ts, INTERVAL '1' MONTH);
-- differs: Flink takes months for as many milliseconds
-- rowsort
SELECT TUMBLE_START(ts, INTERVAL '1' YEAR) AS a, SUM(v) AS n FROM d GROUP BY TUMBLE(ts, INTERVAL '1' YEAR);
-- differs: Flink takes months for as many milliseconds
-- rowsort
SELECT HOP_START(ts, INTERVAL '1' MONTH, INTERVAL '2' MONTH) AS a, SUM(v) AS n FROM d GROUP BY HOP(ts, INTERVAL '1' MONTH, INTERVAL '2' MONTH);
-- rowsort
SELECT window_start, window_end, SUM(v) AS n FROM TABLE(TUMBLE(TABLE d, DESCRIPTOR(ts), INTERVAL '30' DAY)) GROUP BY window_start, window_end;
-- rowsort
SELECT window_start, window_end, SUM(v) AS n FROM TABLE(TUMBLE(TABLE d, DESCRIPTOR(ts), INTERVAL '400' DAY(3))) GROUP BY window_start, window_end;
-- differs: Flink groups the second of two equal sets by all columns
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY GROUPING SETS (CUBE(item), ROLLUP(who));
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY GROUPING SETS (CUBE(item, who), ROLLUP(who, item));
-- differs: Flink groups the second of two equal sets by all columns
-- rowsort
SELECT item, who, SUM(amount) AS s, GROUPING(item) AS g FROM o GROUP BY GROUPING SETS (CUBE(item, who), (who));
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY GROUPING SETS (GROUPING SETS ((item), (who)), ());
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY item, CUBE(who);
-- rowsort
SELECT item, who, SUM(amount) AS s FROM o GROUP BY CUBE(item), ROLLUP(who);
-- rowsort
SELECT item, who, id, SUM(amount) AS s FROM o GROUP BY CUBE((item, who), id);
-- rowsort
SELECT item, who, id, SUM(amount) AS s, GROUPING_ID(item, who, id) AS gid FROM o GROUP BY ROLLUP(item, (who, id));
-- rowsort
SELECT item, who, SUM(amount) AS s, GROUP_ID() AS gid FROM o GROUP BY ROLLUP(item, who);
-- rowsort
SELECT item, who, COUNT(DISTINCT amount) AS s, SUM(price) AS p FROM o GROUP BY GROUPING SETS ((item, who), (item), ());
-- rowsort
SELECT GROUPING(item) AS g, GROUPING(item, who) AS g2, item, who, MAX(price) AS p FROM o GROUP BY CUBE(item, who) HAVING GROUPING(item) = 0;
-- rowsort
SELECT item, UPPER(item) AS u, SUM(amount) AS s FROM o GROUP BY ROLLUP(item, UPPER(item));
