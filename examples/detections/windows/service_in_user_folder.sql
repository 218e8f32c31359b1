-- @rule
-- title: A service is installed from an unusual place
-- severity: high
-- owner: blue team
-- description: The program of a new service is a shell, or lies on an administrative share or in a folder that users write to.
-- tags: [attack.persistence, attack.privilege-escalation, attack.t1543.003]
-- references: [https://attack.mitre.org/techniques/T1543/003/]
-- false_positives: [Remote administration by PsExec]
-- attributes: {playbook: PB-108}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, ServiceName || ': ' || ImagePath
FROM system_log
WHERE EventID = 7045
  AND Provider_Name = 'Service Control Manager'
  AND REGEXP(ImagePath, '(?i)(\\users\\|\\temp\\|\\admin\$\\|%comspec%|cmd(\.exe)?\s+/c|powershell)');
