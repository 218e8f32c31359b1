-- @rule
-- title: A login at the console without a second factor
-- severity: medium
-- owner: cloud team
-- description: A user of the account, not one of the company's directory, has logged in with the password alone.
-- tags: [attack.initial-access, attack.t1078.004]
-- references: [https://attack.mitre.org/techniques/T1078/004/]
-- false_positives: [Users that are made for emergencies]
-- attributes: {playbook: PB-301}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, who, sourceIPAddress
FROM trail
WHERE eventName = 'ConsoleLogin'
  AND userIdentity.type = 'IAMUser'
  AND JSON_VALUE(responseElements, '$.ConsoleLogin') = 'Success'
  AND COALESCE(additionalEventData.MFAUsed, 'No') = 'No';
