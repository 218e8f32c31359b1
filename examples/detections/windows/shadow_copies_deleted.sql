-- @rule
-- title: Shadow copies or backups are deleted
-- severity: critical
-- owner: blue team
-- description: What a victim could restore from is removed, as ransomware does just before it encrypts.
-- tags: [attack.impact, attack.t1490]
-- references: [https://attack.mitre.org/techniques/T1490/]
-- false_positives: [Backup software that rotates shadow copies]
-- attributes: {playbook: PB-103}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, CommandLine
FROM process_creation
WHERE REGEXP(CommandLine, '(?i)vssadmin.*(delete|resize)\s+shadow')
  OR REGEXP(CommandLine, '(?i)wmic.*shadowcopy.*delete')
  OR REGEXP(CommandLine, '(?i)wbadmin.*delete\s+(catalog|systemstatebackup)')
  OR REGEXP(CommandLine, '(?i)bcdedit.*recoveryenabled\s+no');
