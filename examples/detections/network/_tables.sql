-- What sensors in the network and the proxy see, and a list of names that are known to be bad.
CREATE TABLE dns_answers (
  ts TIMESTAMP(3),
  client STRING,
  name STRING,
  kind STRING,         -- A, AAAA, TXT, NULL …
  code STRING,         -- NOERROR, NXDOMAIN …
  address STRING,      -- the first one of the answer
  now AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'dns', 'format' = 'json');

CREATE TABLE flows (
  ts TIMESTAMP(3),     -- when the connection began
  src STRING,
  dst STRING,
  port INT,
  protocol STRING,
  state STRING,        -- established, refused, timeout
  bytes_out BIGINT,
  bytes_in BIGINT,
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'flows', 'format' = 'json');

CREATE TABLE proxy_log (
  ts TIMESTAMP(3),
  client STRING,
  `user` STRING,
  `method` STRING,
  host STRING,
  path STRING,
  status INT,
  agent STRING,
  bytes_out BIGINT,
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'proxy', 'format' = 'json');

CREATE TABLE bad_names (
  name STRING,
  campaign STRING,
  PRIMARY KEY (name) NOT ENFORCED
) WITH ('connector' = 'topic', 'topic' = 'bad_names', 'format' = 'json', 'upsert' = 'true');
