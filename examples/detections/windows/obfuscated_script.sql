-- @rule
-- title: A script of PowerShell is put together of characters
-- severity: medium
-- owner: blue team
-- description: A script block joins numbers of characters, or turns strings around, and runs the result.
-- tags: [attack.defense-evasion, attack.t1027]
-- references: [https://attack.mitre.org/techniques/T1027/]
-- false_positives: [Minified modules of vendors]
-- attributes: {playbook: PB-110}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, LEFT(ScriptBlockText, 200)
FROM ps_script
WHERE EventID = 4104
  AND REGEXP(ScriptBlockText, '(?i)(invoke-expression|\biex\b)')
  AND (REGEXP(ScriptBlockText, '(?i)(\[char\]\s*\d+\s*\+?\s*){4,}') OR REGEXP(ScriptBlockText, '(?i)\[array\]::reverse'));
