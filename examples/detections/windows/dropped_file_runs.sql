-- @rule
-- title: A file that was just written is run
-- severity: high
-- owner: blue team
-- description: A browser, a mail program or an archiver writes a program, and within five minutes that program starts on the same computer.
-- tags: [attack.execution, attack.t1204.002]
-- references: [https://attack.mitre.org/techniques/T1204/002/]
-- false_positives: [Users install software that they have downloaded]
-- attributes: {playbook: PB-112}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  p.`@timestamp`, p.Computer, f.Image || ' -> ' || p.Image
FROM file_event AS f
JOIN process_creation AS p
  ON f.Computer = p.Computer AND LOWER(f.TargetFilename) = LOWER(p.Image)
  AND p.`@timestamp` BETWEEN f.`@timestamp` AND f.`@timestamp` + INTERVAL '5' MINUTE
WHERE REGEXP(f.Image, '(?i)\\(chrome|msedge|firefox|outlook|7zfm|winrar)\.exe$')
  AND REGEXP(f.TargetFilename, '(?i)\.(exe|scr|com|pif)$');
