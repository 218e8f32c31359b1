-- Risk control: what each account did in a quarter of an hour, to a file for the analysts, and refusals beside it.
-- sql run examples/sql/09_account_report.sql -D DATA=examples/data -D OUT=out    (writes out/report and out/refused)
CREATE TABLE payments (
  ts TIMESTAMP(3),
  account STRING,
  amount DECIMAL(10, 2),
  country STRING,
  file_name STRING NOT NULL METADATA FROM 'file.name',
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/payments.json', 'format' = 'json');

CREATE TABLE report (
  since TIMESTAMP(3),
  account STRING,
  payments BIGINT,
  smallest DECIMAL(10, 2),
  largest DECIMAL(10, 2),
  total DECIMAL(38, 2)
) WITH ('connector' = 'filesystem', 'path' = '${OUT}/report', 'format' = 'csv');

CREATE TABLE refused (
  ts TIMESTAMP(3),
  account STRING,
  amount DECIMAL(10, 2),
  file_name STRING
) WITH ('connector' = 'filesystem', 'path' = '${OUT}/refused', 'format' = 'json');

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO report
  SELECT window_start, account, COUNT(*), MIN(amount), MAX(amount), SUM(amount)
  FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '15' MINUTE))
  GROUP BY window_start, window_end, account;

  INSERT INTO refused
  SELECT ts, account, amount, file_name FROM payments WHERE UPPER(TRIM(country)) IN ('KP', 'IR') OR amount > 9250;
END;
