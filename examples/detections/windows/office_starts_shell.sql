-- @rule
-- title: An Office program starts a shell
-- severity: high
-- owner: blue team
-- description: A document that a user has opened starts a command interpreter or a script host, which points to a macro or an exploit.
-- tags: [attack.initial-access, attack.execution, attack.t1566.001, attack.t1204.002]
-- references: [https://attack.mitre.org/techniques/T1566/001/, https://attack.mitre.org/techniques/T1204/002/]
-- false_positives: [Add-ins that call scripts of their own]
-- attributes: {playbook: PB-104}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, ParentImage || ' -> ' || COALESCE(CommandLine, Image)
FROM process_creation
WHERE REGEXP(ParentImage, '(?i)\\(winword|excel|powerpnt|outlook|onenote|mspub)\.exe$')
  AND REGEXP(Image, '(?i)\\(cmd|powershell|pwsh|wscript|cscript|mshta|rundll32|regsvr32)\.exe$');
