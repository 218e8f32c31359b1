-- @rule
-- title: A client asks for many names that do not exist
-- severity: high
-- owner: network team
-- description: Five different long names of letters and digits that nobody has registered, within five minutes, as a program asks that computes where its master is.
-- tags: [attack.command-and-control, attack.t1568.002]
-- references: [https://attack.mitre.org/techniques/T1568/002/]
-- false_positives: [A misconfigured search list, Some browsers at their start]
-- attributes: {playbook: PB-202}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, client, CAST(COUNT(DISTINCT name) AS STRING) || ' names, such as ' || MIN(name)
FROM TABLE(TUMBLE(TABLE dns_answers, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
WHERE code = 'NXDOMAIN'
  AND REGEXP(name, '(?i)^[a-z0-9]{10,}\.(com|net|org|info|biz|ru|top|xyz)\.?$')
GROUP BY client, window_start, window_end
HAVING COUNT(DISTINCT name) >= 5;
