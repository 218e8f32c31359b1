-- @rule
-- title: A log of Windows is cleared
-- severity: high
-- owner: blue team
-- description: The event log says that it was emptied, or a command does it.
-- tags: [attack.defense-evasion, attack.t1070.001]
-- references: [https://attack.mitre.org/techniques/T1070/001/]
-- false_positives: [A new image of a machine is prepared]
-- attributes: {playbook: PB-109}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, Computer, detail
FROM (
  SELECT `@timestamp` AS ts, Computer, 'event ' || CAST(EventID AS STRING) AS detail FROM system_log
  WHERE Provider_Name = 'Microsoft-Windows-Eventlog' AND EventID IN (104, 1102)
  UNION ALL
  SELECT `@timestamp`, Computer, CommandLine FROM process_creation
  WHERE REGEXP(CommandLine, '(?i)(wevtutil(\.exe)?\s+(cl|clear-log)\s|clear-eventlog)')
);
