-- @rule
-- title: A program of a user's folder starts with each login
-- severity: medium
-- owner: blue team
-- description: A Run key gets a command in a folder that any user can write to.
-- tags: [attack.persistence, attack.t1547.001]
-- references: [https://attack.mitre.org/techniques/T1547/001/]
-- false_positives: [Installers that put programs below AppData]
-- attributes: {playbook: PB-106}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  `@timestamp`, Computer, TargetObject || ' = ' || Details
FROM registry_set
WHERE REGEXP(TargetObject, '(?i)\\currentversion\\(run|runonce|runservices)\\')
  AND REGEXP(Details, '(?i)\\(users\\public|appdata\\local\\temp|programdata|\$recycle\.bin)\\')
  AND LOWER(COALESCE(Image, '')) NOT LIKE '%\msiexec.exe';
