SET 'pipeline.auto-watermark-interval' = '0';
-- A table joined with itself by time: both sides take turns, so a late row meets what has come before it. (Whether it meets itself is
-- a matter of timing in Flink: which side comes first.)
CREATE TABLE h (id INT, v INT, k STRING, ok BOOLEAN, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
CREATE TABLE slow (id INT, v INT, k STRING, ok BOOLEAN, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
-- rowsort
SELECT x.id, y.id FROM h x, h y WHERE x.k = y.k AND x.id <> y.id AND x.ts BETWEEN y.ts AND y.ts + INTERVAL '3' SECOND;
-- rowsort
SELECT x.id, y.id FROM h x LEFT JOIN h y ON x.k = y.k AND x.id <> y.id AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '3' SECOND;
-- rowsort
SELECT x.id, y.id FROM h x FULL JOIN h y ON x.k = y.k AND x.id <> y.id AND x.v < y.v AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '5' SECOND;
-- rowsort
SELECT x.id, y.id FROM h x JOIN h y ON x.k = y.k AND x.id <> y.id AND y.ts BETWEEN x.ts - INTERVAL '8' SECOND AND x.ts;
-- rowsort
SELECT x.id, y.id FROM h x JOIN h y ON x.k = y.k AND x.id <> y.id AND x.v > 3 AND y.v < 3 AND y.ts BETWEEN x.ts - INTERVAL '20' SECOND AND x.ts + INTERVAL '20' SECOND;
-- rowsort
SELECT x.id, y.id FROM slow x JOIN slow y ON x.k = y.k AND x.id <> y.id AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '1' SECOND;
-- rowsort
SELECT x.id, y.id FROM slow x LEFT JOIN slow y ON x.k = y.k AND x.id <> y.id AND y.id > x.id AND y.ts > x.ts - INTERVAL '10' SECOND AND y.ts < x.ts;
