CREATE TEMPORARY TABLE t (id INT, b BOOLEAN, ti TINYINT, si SMALLINT, i INT, j INT, l BIGINT, f FLOAT, d DOUBLE,
 n5 DECIMAL(5,2), n10 DECIMAL(10,2), n20 DECIMAL(20,10), n38 DECIMAL(38,18), s STRING, u STRING, c CHAR(3), v VARCHAR(5),
 dt DATE, tm TIME, ts TIMESTAMP(3), ts6 TIMESTAMP(6), ltz TIMESTAMP_LTZ(3), i0 INT NOT NULL, s0 STRING NOT NULL, b0 BOOLEAN NOT NULL, y BYTES
) WITH ('connector'='filesystem','path'='${PATH}','format'='json','json.timestamp-format.standard'='SQL');
