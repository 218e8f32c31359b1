SELECT * FROM (SELECT a, s FROM t UNION ALL SELECT CAST(b AS INT), k FROM (SELECT b, 'k' AS k FROM u)) WHERE s = 'x';
-- the window's columns are not there below it
SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) WHERE k = 'x' AND window_end > TIMESTAMP '2024-01-01 00:00:00' AND v > 1;
-- never below a watermark: dropped rows move it, too
SELECT k FROM e WHERE low = 'x';
SELECT low FROM c WHERE low = 'x';
