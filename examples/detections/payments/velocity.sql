-- @rule
-- title: A card pays very often
-- severity: medium
-- owner: risk team
-- description: Six approved payments by one card within ten minutes, or more than 5,000 in sum by at least three.
-- tags: [fraud.velocity]
-- references: [https://en.wikipedia.org/wiki/Credit_card_fraud]
-- false_positives: [Ticket machines, Amusement parks]
-- attributes: {playbook: PB-402}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, card, CAST(COUNT(*) AS STRING) || ' payments, ' || CAST(SUM(amount) AS STRING) || ' in sum'
FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
WHERE kind = 'sale' AND status = 'approved'
GROUP BY card, window_start, window_end
HAVING COUNT(*) >= 6 OR (COUNT(*) >= 3 AND SUM(amount) > 5000);
