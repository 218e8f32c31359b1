-- Printing what a job emits: the quickest way to look at a stream.
CREATE TABLE payments (
  ts TIMESTAMP(3),
  payment_id BIGINT,
  account STRING,
  amount DECIMAL(10, 2),
  merchant STRING
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/payments.json', 'format' = 'json');

CREATE TABLE shown (
  ts TIMESTAMP(3),
  payment_id BIGINT,
  account STRING,
  amount DECIMAL(10, 2),
  merchant STRING
) WITH ('connector' = 'print', 'print-identifier' = 'large');

INSERT INTO shown SELECT * FROM payments WHERE amount > 5000 OR (merchant IS NULL AND amount > 100);
