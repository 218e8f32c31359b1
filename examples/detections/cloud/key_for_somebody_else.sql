-- @rule
-- title: A user makes an access key for another one
-- severity: high
-- owner: cloud team
-- description: Keys that are made in the name of somebody else give lasting access that is not theirs.
-- tags: [attack.persistence, attack.t1098.001]
-- references: [https://attack.mitre.org/techniques/T1098/001/]
-- false_positives: [The team that administers users]
-- attributes: {playbook: PB-303}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, who, JSON_VALUE(requestParameters, '$.userName')
FROM trail
WHERE eventName IN ('CreateAccessKey', 'CreateLoginProfile', 'UpdateLoginProfile')
  AND errorCode IS NULL
  AND JSON_VALUE(requestParameters, '$.userName') <> who;
