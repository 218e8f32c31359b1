-- @rule
-- title: A port for administrators is opened to the internet
-- severity: high
-- owner: cloud team
-- description: A security group lets everybody in at the ports of SSH or of remote desktops.
-- tags: [attack.defense-evasion, attack.t1562.007]
-- references: [https://attack.mitre.org/techniques/T1562/007/]
-- false_positives: [Short tests]
-- attributes: {playbook: PB-307}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, JSON_VALUE(requestParameters, '$.groupId'), 'by ' || who
FROM trail
WHERE eventName = 'AuthorizeSecurityGroupIngress'
  AND REGEXP(requestParameters, '"fromPort":\s*(22|3389)\b')
  AND REGEXP(requestParameters, '(0\.0\.0\.0|::)/0');
