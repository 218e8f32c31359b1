-- Rows are compared in all their columns, also in those that nobody reads behind a set operation.
CREATE TABLE items (id INT, k INT, g STRING, v INT, d DECIMAL(10, 2), b BOOLEAN) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_items.json');
CREATE TABLE parts (pid BIGINT, k INT, g STRING, w INT, name STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${DATA}/j_parts.json');
-- materialized
SELECT k, g FROM items INTERSECT ALL SELECT k, g FROM parts;
-- materialized
-- differs: Flink leaves a column out before it compares rows
SELECT g FROM (SELECT k, g FROM items EXCEPT ALL SELECT k, g FROM parts);
-- materialized
SELECT g FROM (SELECT k, g FROM items EXCEPT SELECT k, g FROM parts);
