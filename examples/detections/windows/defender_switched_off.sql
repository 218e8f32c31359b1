-- @rule
-- title: Protection of Defender is switched off in the registry
-- severity: high
-- owner: blue team
-- description: A value that disables a part of Microsoft Defender is set, or a path is left out of its scans.
-- tags: [attack.defense-evasion, attack.t1562.001]
-- references: [https://attack.mitre.org/techniques/T1562/001/]
-- false_positives: [Another antivirus program is installed]
-- attributes: {playbook: PB-107}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, TargetObject
FROM registry_set
WHERE LOWER(TargetObject) LIKE '%\windows defender\%'
  AND ((REGEXP(TargetObject, '(?i)\\disable(antispyware|realtimemonitoring|behaviormonitoring|ioavprotection)$')
      AND Details = 'DWORD (0x00000001)')
    OR LOWER(TargetObject) LIKE '%\exclusions\paths\%');
