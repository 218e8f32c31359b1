-- @rule
-- title: A young account pays far away, or above its limit
-- severity: medium
-- owner: risk team
-- description: An account of less than seven days pays more than 1,000 in a country that is not its own, or more than its limit for a day.
-- tags: [fraud.new-account]
-- references: [https://en.wikipedia.org/wiki/Identity_theft]
-- false_positives: [People who have just moved]
-- attributes: {playbook: PB-407}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  p.ts, p.account, CAST(p.amount AS STRING) || ' in ' || COALESCE(p.country, '?')
FROM payments AS p
JOIN accounts FOR SYSTEM_TIME AS OF p.now AS a ON p.account = a.account
WHERE a.opened > p.ts - INTERVAL '7' DAY
  AND ((p.country <> a.home AND p.amount > 1000) OR p.amount > a.day_limit);
