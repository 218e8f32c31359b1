-- @rule
-- title: The root user of an account does something
-- severity: high
-- owner: cloud team
-- description: Root may do all, and is for what nobody else can do. Its calls are few, and each of them is looked at.
-- tags: [attack.privilege-escalation, attack.t1078.004]
-- references: [https://attack.mitre.org/techniques/T1078/004/]
-- false_positives: [Changes of the account that only root may make]
-- attributes: {playbook: PB-302}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, userIdentity.accountId, eventName || ' from ' || COALESCE(sourceIPAddress, '?')
FROM trail
WHERE userIdentity.type = 'Root'
  AND sourceIPAddress NOT LIKE '%.amazonaws.com'
  AND REGEXP(eventName, '^(Get|List|Describe)') IS NOT TRUE;
