-- @rule
-- title: A merchant sees many small refusals
-- severity: high
-- owner: risk team
-- description: Within five minutes payments of less than two by five cards are declined at one merchant, as somebody does who tries which stolen cards work.
-- tags: [fraud.card-testing]
-- references: [https://en.wikipedia.org/wiki/Carding_(fraud)]
-- false_positives: [A fault at the bank that issued the cards]
-- attributes: {playbook: PB-401}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, merchant, CAST(COUNT(DISTINCT card) AS STRING) || ' cards, ' || CAST(COUNT(*) AS STRING) || ' refusals'
FROM TABLE(HOP(TABLE payments, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))
WHERE kind = 'sale' AND status = 'declined' AND amount < 2
GROUP BY merchant, window_start, window_end
HAVING COUNT(DISTINCT card) >= 5;
