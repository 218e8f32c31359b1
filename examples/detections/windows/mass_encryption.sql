-- @rule
-- title: One program writes many files with a strange ending
-- severity: critical
-- owner: blue team
-- description: A process writes five files within ten seconds whose names got a second ending, such as report.docx.locked.
-- tags: [attack.impact, attack.t1486]
-- references: [https://attack.mitre.org/techniques/T1486/]
-- false_positives: [Backup software with endings of its own]
-- attributes: {playbook: PB-113}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, Computer, Image || ' wrote ' || CAST(COUNT(*) AS STRING) || ' files'
FROM TABLE(TUMBLE(TABLE file_event, DESCRIPTOR(`@timestamp`), INTERVAL '10' SECOND))
WHERE REGEXP(TargetFilename, '(?i)\.(docx?|xlsx?|pdf|jpe?g|zip|sql)\.[a-z0-9]{3,10}$')
  AND REGEXP(TargetFilename, '(?i)\.(tmp|bak|partial)$') IS NOT TRUE
GROUP BY Computer, Image, ProcessGuid, window_start, window_end
HAVING COUNT(*) >= 5;
