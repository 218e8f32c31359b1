-- @rule
-- title: A payment is far above what the account is used to
-- severity: medium
-- owner: risk team
-- description: More than 500, and more than five times the mean of the ten payments before it, of which there are at least five.
-- tags: [fraud.account-takeover]
-- references: [https://en.wikipedia.org/wiki/Standard_score]
-- false_positives: [Holidays, A new car]
-- attributes: {playbook: PB-404}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, account, CAST(amount AS STRING) || ' where ' || CAST(CAST(usual AS DECIMAL(12, 2)) AS STRING) || ' is usual'
FROM (
  SELECT ts, account, amount, status, known, (total - amount) / known AS usual
  FROM (
    SELECT ts, account, amount, status, SUM(amount) OVER w AS total, COUNT(*) OVER w - 1 AS known
    FROM payments WHERE kind = 'sale'
    WINDOW w AS (PARTITION BY account ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
  )
  WHERE known >= 5
)
WHERE amount > 500 AND amount > 5 * usual AND status = 'approved';
