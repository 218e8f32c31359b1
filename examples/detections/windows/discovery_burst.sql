-- @rule
-- title: One user looks around with many tools
-- severity: medium
-- owner: blue team
-- description: Four different commands that tell about users, groups, network and machine, within five minutes on one computer.
-- tags: [attack.discovery, attack.t1087, attack.t1082, attack.t1016]
-- references: [https://attack.mitre.org/techniques/T1087/, https://attack.mitre.org/techniques/T1082/, https://attack.mitre.org/techniques/T1016/]
-- false_positives: [Scripts of an inventory, Administrators at work]
-- attributes: {playbook: PB-111}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, Computer, LISTAGG(DISTINCT tool)
FROM (
  SELECT Computer, tool, window_start, window_end
  FROM TABLE(HOP(
    DATA => (SELECT *, LOWER(REGEXP_EXTRACT(Image, '([^\\]+)\.[eE][xX][eE]$', 1)) AS tool FROM process_creation),
    TIMECOL => DESCRIPTOR(`@timestamp`), SLIDE => INTERVAL '1' MINUTE, SIZE => INTERVAL '5' MINUTE))
  WHERE tool IN ('whoami', 'net', 'net1', 'ipconfig', 'systeminfo', 'nltest', 'quser', 'tasklist', 'arp', 'route')
    AND IntegrityLevel <> 'System'
)
GROUP BY Computer, window_start, window_end
HAVING COUNT(DISTINCT tool) >= 4;
