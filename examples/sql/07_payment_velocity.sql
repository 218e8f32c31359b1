-- Risk control: accounts that pay often, or much in sum, within five minutes.
CREATE TABLE payments (
  ts TIMESTAMP(3),
  payment_id BIGINT,
  account STRING,
  amount DECIMAL(10, 2),
  WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/payments.json', 'format' = 'json');

SELECT
  window_start,
  window_end,
  account,
  payments,
  total,
  CASE WHEN payments >= 8 AND total >= 5000 THEN 'both' WHEN payments >= 8 THEN 'often' ELSE 'much' END AS reason
FROM (
  SELECT window_start, window_end, account, COUNT(*) AS payments, SUM(amount) AS total
  FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
  GROUP BY window_start, window_end, account
)
WHERE payments >= 8 OR total >= 5000;
