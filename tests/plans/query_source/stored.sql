SELECT name FROM stored WHERE id > 3 AND LOWER(name) = 'a' AND (name = 'A' OR name IS NULL);
SELECT id + 1 FROM stored WHERE price < 0.5 AND id = price;
SELECT * FROM stored LIMIT 10;
SELECT name FROM stored LIMIT 10 OFFSET 5;
SELECT name FROM stored WHERE id = 1 LIMIT 10;
SELECT name FROM stored ORDER BY price LIMIT 10;
SELECT COUNT(*) FROM stored WHERE name IN ('a', 'b');
SELECT a.b, s.name FROM t AS a JOIN stored AS s ON a.b = s.id WHERE s.born >= DATE '2024-01-01';
