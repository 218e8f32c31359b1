-- Functions of your own, in Python: payments_python.py beside this file has them.
-- sql run examples/functions/payments_python.sql -D DATA=examples/data
CREATE FUNCTION euros AS 'payments_python.euros' LANGUAGE PYTHON;
CREATE FUNCTION is_round AS 'payments_python.is_round' LANGUAGE PYTHON;
CREATE FUNCTION limits_passed AS 'payments_python.limits_passed' LANGUAGE PYTHON;
CREATE FUNCTION spread AS 'payments_python.Spread' LANGUAGE PYTHON USING FILE 'payments_python.py';

CREATE TABLE payments (
  ts TIMESTAMP(3),
  payment_id BIGINT,
  account STRING,
  amount DOUBLE,
  currency STRING,
  WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/payments.json', 'format' = 'json');

SELECT payment_id, euros(CAST(amount AS DECIMAL(12, 2)), currency) AS eur
FROM payments
WHERE is_round(amount);

SELECT `limit`, account, amount
FROM payments CROSS JOIN LATERAL TABLE(limits_passed(amount)) AS t (`limit`)
WHERE `limit` >= 1000;

SELECT account, window_start, spread(amount) AS spread_of_amounts
FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
GROUP BY account, window_start, window_end
HAVING spread(amount) > 500;
