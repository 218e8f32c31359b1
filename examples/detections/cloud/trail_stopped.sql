-- @rule
-- title: The trail, or another watchman, is stopped
-- severity: critical
-- owner: cloud team
-- description: Calls that end the record of calls, the detection of threats, or the history of settings.
-- tags: [attack.defense-evasion, attack.t1562.008]
-- references: [https://attack.mitre.org/techniques/T1562/008/]
-- false_positives: [Accounts that are closed]
-- attributes: {playbook: PB-305}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, who, eventName
FROM trail
WHERE eventName IN ('StopLogging', 'DeleteTrail', 'DeleteDetector', 'StopConfigurationRecorder', 'DeleteFlowLogs')
  AND errorCode IS NULL;
