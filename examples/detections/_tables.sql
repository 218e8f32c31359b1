-- What all rules of these folders write. What they read stands in the _tables.sql of each folder.
CREATE TABLE alerts (
  rule STRING,
  title STRING,
  severity STRING,
  owner STRING,
  tags ARRAY<STRING>,
  playbook STRING,
  ts TIMESTAMP(3),
  subject STRING,      -- what it is about: a computer, a user, an account, a device
  detail STRING
) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
