-- NOT of a comparison by order is the opposite one, also where a value is NaN.
CREATE TABLE h (id INT, v INT, d DOUBLE, f FLOAT) WITH ('connector' = 'filesystem', 'path' = '${DATA}/hard.json', 'format' = 'json');
SELECT id, d, f, d > 1, NOT d > 1, NOT (d <= 1), NOT (f < 1E0), NOT NOT (d >= 1), NOT d = 1E0, NOT d <> 1E0 FROM h;
SELECT id FROM h WHERE NOT (d > 1);
SELECT id FROM h WHERE NOT (d > v);
SELECT id FROM h WHERE NOT (d > 1E0 OR v > 7);
SELECT id FROM h WHERE NOT (d > 1E0 AND v > 5);
SELECT id FROM h WHERE NOT (v < 9 AND NOT (d < 1E0 OR f > 2E0));
SELECT id, d BETWEEN -1E0 AND 100E0, d NOT BETWEEN -1E0 AND 100E0, NOT d BETWEEN SYMMETRIC 100E0 AND f, NOT v BETWEEN d AND 5 FROM h;
SELECT id FROM h WHERE d NOT BETWEEN -1E0 AND 1E0;
SELECT id, CASE WHEN NOT d < 5E0 THEN 'great' ELSE 'small' END, IF(NOT f >= 5E0, 1, 2), COALESCE(NOT d > 1, TRUE), CAST(NOT d > 1 AS STRING), (d > 1) IS NOT TRUE FROM h;
SELECT COUNT(*) FILTER (WHERE NOT d < 5E0), COUNT(*) FILTER (WHERE f NOT BETWEEN 0 AND 5) FROM h;
SELECT d FROM h GROUP BY d HAVING NOT (SUM(f) > 10);
SELECT a.id, b.id FROM h a JOIN h b ON a.id = b.id + 2 AND NOT (a.d >= b.d);
SELECT id FROM h WHERE NOT CASE WHEN v > 4 THEN d > 10E0 ELSE d < 1E0 END;
SELECT id, NOT CASE v WHEN 7 THEN d > 10E0 WHEN 3 THEN FALSE END, NOT CASE WHEN v > 4 THEN d > 1E0 ELSE v > 2 END FROM h;
-- materialized
SELECT id FROM h WHERE d > ALL (SELECT f FROM h WHERE id > 90);
-- materialized
SELECT id FROM h WHERE d >= ALL (SELECT x FROM (VALUES (0E0), (1E0)) AS t (x));
-- materialized
SELECT id, d < ALL (SELECT x FROM (VALUES (0E0), (1E0)) AS t (x)), NOT d <= ANY (SELECT x FROM (VALUES (0E0), (1E0)) AS t (x)) FROM h;
-- materialized
SELECT id FROM h WHERE NOT d > ALL (SELECT x FROM (VALUES (0E0), (1E0)) AS t (x));
