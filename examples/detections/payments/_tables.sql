-- Payments by card, transfers between accounts, and what is known of accounts.
CREATE TABLE payments (
  ts TIMESTAMP(3),
  payment STRING,
  kind STRING,           -- sale, refund
  account STRING,
  card STRING,
  merchant STRING,
  amount DECIMAL(12, 2), -- in the account's currency
  country STRING,
  latitude DOUBLE,
  longitude DOUBLE,
  status STRING,         -- approved, declined
  device STRING,
  now AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'topic', 'topic' = 'payments', 'format' = 'json');

CREATE TABLE transfers (
  ts TIMESTAMP(3),
  transfer STRING,
  sender STRING,
  receiver STRING,
  amount DECIMAL(12, 2),
  now AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'topic', 'topic' = 'transfers', 'format' = 'json');

-- The last row of an account counts, and a record without a value takes it away.
CREATE TABLE accounts (
  account STRING,
  opened TIMESTAMP(3),
  home STRING,           -- a country
  day_limit DECIMAL(12, 2),
  PRIMARY KEY (account) NOT ENFORCED
) WITH ('connector' = 'topic', 'topic' = 'accounts', 'format' = 'json', 'upsert' = 'true');
