-- Risk control: a score for each payment, in one currency.
CREATE TABLE payments (
  ts TIMESTAMP(3),
  payment_id BIGINT,
  account STRING,
  amount DECIMAL(10, 2),
  currency STRING,
  country STRING,
  merchant STRING,
  home AS UPPER(TRIM(country)),
  euro AS amount * CASE currency WHEN 'USD' THEN 0.92 WHEN 'GBP' THEN 1.17 ELSE 1.00 END
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/payments.json', 'format' = 'json');

SELECT payment_id, account, euro, home, score
FROM (
  SELECT
    payment_id,
    account,
    euro,
    home,
    CASE WHEN euro >= 5000 THEN 50 WHEN euro BETWEEN 100 AND 5000 THEN 10 ELSE 0 END
      + CASE WHEN home IN ('KP', 'IR') THEN 40 WHEN home <> 'DE' THEN 5 ELSE 0 END
      + CASE WHEN merchant IS NULL THEN 5 WHEN merchant = 'games' THEN 3 ELSE 0 END AS score
  FROM payments
)
WHERE score >= 15;
