-- @rule
-- title: One device pays by many cards
-- severity: high
-- owner: risk team
-- description: A phone or computer pays by three cards of different accounts without a pause of more than a quarter of an hour.
-- tags: [fraud.stolen-card]
-- references: [https://en.wikipedia.org/wiki/Credit_card_fraud]
-- false_positives: [A family at one computer]
-- attributes: {playbook: PB-409}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, device, LISTAGG(DISTINCT card)
FROM TABLE(SESSION(TABLE payments PARTITION BY device, DESCRIPTOR(ts), INTERVAL '15' MINUTE))
WHERE device IS NOT NULL
GROUP BY device, window_start, window_end
HAVING COUNT(DISTINCT card) >= 3 AND COUNT(DISTINCT account) >= 2;
