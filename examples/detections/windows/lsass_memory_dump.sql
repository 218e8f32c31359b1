-- @rule
-- title: The memory of LSASS is written to a file
-- severity: critical
-- owner: blue team
-- description: A tool of Windows or of Sysinternals dumps the process that keeps the credentials of users who have logged in.
-- tags: [attack.credential-access, attack.t1003.001]
-- references: [https://attack.mitre.org/techniques/T1003/001/]
-- false_positives: [A technician looks into a hanging LSASS]
-- attributes: {playbook: PB-102}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, CommandLine
FROM process_creation
WHERE (LOWER(CommandLine) LIKE '%comsvcs%' AND REGEXP(CommandLine, '(?i)(minidump|#0*24\b)'))
  OR (REGEXP(OriginalFileName, '(?i)^procdump') AND LOWER(CommandLine) LIKE '%lsass%');
