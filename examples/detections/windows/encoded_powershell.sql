-- @rule
-- title: PowerShell that runs encoded text
-- severity: high
-- owner: blue team
-- description: A command line gives PowerShell its script as Base64, which hides what it does from whoever reads the log.
-- tags: [attack.execution, attack.t1059.001, attack.t1027.010]
-- references: [https://attack.mitre.org/techniques/T1059/001/, https://attack.mitre.org/techniques/T1027/010/]
-- false_positives: [Scripts of the software distribution, Agents of some monitoring tools]
-- attributes: {playbook: PB-101}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, CommandLine
FROM process_creation
WHERE REGEXP(Image, '(?i)\\(powershell|pwsh)\.exe$')
  AND REGEXP(CommandLine, '(?i)\s[-/]e(c|n|nc|nco|ncod|ncode|ncoded|ncodedcommand)?\s+["'']?[a-z0-9+/=]{24,}')
  AND COALESCE(LOWER(ParentImage), '') NOT LIKE 'c:\program files\softdist\%';
