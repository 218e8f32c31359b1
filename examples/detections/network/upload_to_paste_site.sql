-- @rule
-- title: Much text goes to a site for pastes or files
-- severity: medium
-- owner: network team
-- description: A request with a body of more than 100 KB to a site where anybody can leave data.
-- tags: [attack.exfiltration, attack.t1567.003]
-- references: [https://attack.mitre.org/techniques/T1567/003/]
-- false_positives: [Developers who share logs]
-- attributes: {playbook: PB-210}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, COALESCE(`user`, client), host || ': ' || CAST(bytes_out AS STRING) || ' bytes'
FROM proxy_log
WHERE `method` IN ('POST', 'PUT')
  AND bytes_out > 100000
  AND REGEXP(host, '(?i)(^|\.)(pastebin\.com|paste\.ee|transfer\.sh|file\.io|anonfiles\.com|gofile\.io)$')
  AND status < 400;
