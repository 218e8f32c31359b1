-- @rule
-- title: Sums just below the limit for reports
-- severity: medium
-- owner: risk team
-- description: Within a day three transfers of one account lie between 9,000 and 10,000, so that none of them has to be reported.
-- tags: [fraud.structuring]
-- references: [https://en.wikipedia.org/wiki/Structuring]
-- false_positives: [Rents and wages of that height]
-- attributes: {playbook: PB-410}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, sender, CAST(COUNT(*) AS STRING) || ' transfers, ' || CAST(SUM(amount) AS STRING) || ' in sum'
FROM TABLE(TUMBLE(TABLE transfers, DESCRIPTOR(ts), INTERVAL '1' DAY))
WHERE amount >= 9000 AND amount < 10000
GROUP BY sender, window_start, window_end
HAVING COUNT(*) >= 3;
