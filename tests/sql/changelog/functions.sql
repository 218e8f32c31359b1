-- TO_CHANGELOG and FROM_CHANGELOG over changes of another database.
CREATE TABLE hosts (id INT, host STRING, load DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '${DATA}/changes_debezium.json', 'format' = 'debezium-json');

SELECT * FROM TO_CHANGELOG(input => TABLE hosts);

SELECT * FROM TO_CHANGELOG(input => TABLE hosts, op => DESCRIPTOR(kind));

SELECT kind, id FROM TO_CHANGELOG(
  input => TABLE hosts, op => DESCRIPTOR(kind), op_mapping => MAP['INSERT, UPDATE_AFTER', 'put', 'DELETE', 'gone']
) WHERE id < 3;

CREATE VIEW counted AS SELECT host, COUNT(*) AS n FROM hosts GROUP BY host;

SELECT * FROM TO_CHANGELOG(input => TABLE counted);

CREATE VIEW told AS SELECT * FROM TO_CHANGELOG(input => TABLE hosts);

SELECT * FROM FROM_CHANGELOG(input => TABLE told);

SELECT host, COUNT(*) FROM FROM_CHANGELOG(input => TABLE told) GROUP BY host;

CREATE VIEW coded AS SELECT id, host, CASE op WHEN 'INSERT' THEN 'c' WHEN 'UPDATE_BEFORE' THEN 'b' WHEN 'UPDATE_AFTER' THEN 'u' ELSE 'd' END AS code FROM told;

SELECT * FROM FROM_CHANGELOG(
  input => TABLE coded, op => DESCRIPTOR(code),
  op_mapping => MAP['c, r', 'INSERT', 'b', 'UPDATE_BEFORE', 'u', 'UPDATE_AFTER', 'd', 'DELETE']
);

-- a code that is not in the mapping
SELECT * FROM FROM_CHANGELOG(input => TABLE coded, op => DESCRIPTOR(code), op_mapping => MAP['c', 'INSERT']);

-- an operation that there is not
SELECT * FROM TO_CHANGELOG(input => TABLE hosts, op_mapping => MAP['UPSERT', 'u']);

-- a table whose rows change
SELECT * FROM FROM_CHANGELOG(input => TABLE hosts, op => DESCRIPTOR(host));

-- a column that there is not
SELECT * FROM FROM_CHANGELOG(input => TABLE told, op => DESCRIPTOR(nothing));
