-- @rule
-- title: A refund for which nothing was sold
-- severity: medium
-- owner: risk team
-- description: A merchant refunds more than 50 to a card that has bought nothing of at least that amount there within thirty days.
-- tags: [fraud.refund]
-- references: [https://en.wikipedia.org/wiki/Return_fraud]
-- false_positives: [Returns after the time for them]
-- attributes: {playbook: PB-411}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  r.ts, r.merchant, CAST(r.amount AS STRING) || ' to card ' || r.card
FROM (SELECT * FROM payments WHERE kind = 'refund' AND amount > 50) AS r
LEFT JOIN (SELECT * FROM payments WHERE kind = 'sale' AND status = 'approved') AS s
  ON r.card = s.card AND r.merchant = s.merchant AND s.amount >= r.amount
  AND s.ts BETWEEN r.ts - INTERVAL '30' DAY AND r.ts
WHERE s.card IS NULL;
