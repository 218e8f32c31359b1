-- NULL is one of the values of ARRAY_AGG, also with DISTINCT. To Flink no array with NULL in it is equal to another: it tells
-- of such a result again though nothing has changed.
CREATE TABLE orders (id BIGINT, customer ROW<cid INT, name STRING>, attrs MAP<STRING, STRING>, status STRING) WITH ('connector' = 'filesystem', 'path' = '${DATA}/mart_orders.json', 'format' = 'json');
CREATE VIEW o AS SELECT id, status, customer.cid AS cid, customer.name AS who, attrs['channel'] AS channel FROM orders;

SELECT status, ARRAY_AGG(DISTINCT channel), ARRAY_AGG(channel), COLLECT(DISTINCT channel) FROM o GROUP BY status;
-- materialized
SELECT ARRAY_AGG(DISTINCT who), COUNT(DISTINCT who), LISTAGG(DISTINCT who), MIN(DISTINCT who), FIRST_VALUE(DISTINCT who) FROM o;
-- materialized
SELECT ARRAY_AGG(DISTINCT channel) FILTER (WHERE id > 2), ARRAY_AGG(DISTINCT channel) FILTER (WHERE cid > 99) FROM o;
-- materialized
SELECT CARDINALITY(ARRAY_AGG(DISTINCT m)), SUM(DISTINCT n) FROM (SELECT id, MAX(who) AS m, NULLIF(COUNT(*), 1) AS n FROM o GROUP BY id);
