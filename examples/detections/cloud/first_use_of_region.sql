-- @rule
-- title: Something is started in a region for the first time
-- severity: medium
-- owner: cloud team
-- description: The first machine, function or cluster of an account in a region for ninety days. Who mines at others' cost goes where nobody looks.
-- tags: [attack.defense-evasion, attack.t1535]
-- references: [https://attack.mitre.org/techniques/T1535/]
-- false_positives: [A new site]
-- attributes: {playbook: PB-308}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, account, awsRegion || ': ' || eventName || ' by ' || who
FROM (SELECT *, userIdentity.accountId AS account FROM trail)
WHERE eventName IN ('RunInstances', 'CreateFunction20150331', 'CreateCluster') AND errorCode IS NULL
  AND NEW_TERM(account, awsRegion, INTERVAL '90' DAY);
