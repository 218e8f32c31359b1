-- @rule
-- title: A new key is used from another address at once
-- severity: high
-- owner: cloud team
-- description: Within ten minutes after a key was made it is used from an address that is not the one of who made it.
-- tags: [attack.persistence, attack.t1098.001, attack.t1078.004]
-- references: [https://attack.mitre.org/techniques/T1098/001/, https://attack.mitre.org/techniques/T1078/004/]
-- false_positives: [Keys that are made for a server]
-- attributes: {playbook: PB-312}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  u.eventTime, u.key, 'made by ' || m.who || ' at ' || m.address || ', used from ' || u.address
FROM (
  SELECT eventTime, who, sourceIPAddress AS address, JSON_VALUE(responseElements, '$.accessKey.accessKeyId') AS key
  FROM trail WHERE eventName = 'CreateAccessKey'
) AS m
JOIN (SELECT eventTime, sourceIPAddress AS address, userIdentity.accessKeyId AS key FROM trail) AS u
  ON m.key = u.key AND u.address <> m.address
  AND u.eventTime BETWEEN m.eventTime AND m.eventTime + INTERVAL '10' MINUTE;
