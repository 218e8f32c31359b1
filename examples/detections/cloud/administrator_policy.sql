-- @rule
-- title: Somebody becomes an administrator
-- severity: high
-- owner: cloud team
-- description: A policy that allows everything is attached to a user, a group or a role, or written as a new version.
-- tags: [attack.privilege-escalation, attack.t1098.003]
-- references: [https://attack.mitre.org/techniques/T1098/003/]
-- false_positives: [The pipeline that sets up accounts]
-- attributes: {playbook: PB-304}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, who, eventName || ': ' || requestParameters
FROM trail
WHERE errorCode IS NULL
  AND ((eventName IN ('AttachUserPolicy', 'AttachGroupPolicy', 'AttachRolePolicy')
      AND JSON_VALUE(requestParameters, '$.policyArn') LIKE '%/AdministratorAccess')
    OR (eventName IN ('PutUserPolicy', 'PutRolePolicy', 'CreatePolicyVersion')
      AND REGEXP(JSON_VALUE(requestParameters, '$.policyDocument'), '"Action":\s*"\*"')));
