-- @rule
-- title: certutil fetches or decodes a file
-- severity: medium
-- owner: blue team
-- description: A tool for certificates brings a file from the network, or turns text into a program, which it is rarely used for.
-- tags: [attack.command-and-control, attack.t1105]
-- references: [https://attack.mitre.org/techniques/T1105/]
-- false_positives: [Scripts that fetch revocation lists]
-- attributes: {playbook: PB-105}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, CommandLine
FROM process_creation
WHERE (LOWER(Image) LIKE '%\certutil.exe' OR LOWER(OriginalFileName) = 'certutil.exe')
  AND REGEXP(CommandLine, '(?i)\s[-/](urlcache|verifyctl|decode|decodehex)\b');
