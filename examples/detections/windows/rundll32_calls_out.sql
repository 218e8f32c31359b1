-- @rule
-- title: rundll32 without arguments calls an address outside
-- severity: high
-- owner: blue team
-- description: A process that has nothing to do, and nevertheless connects to the internet within a minute of its start, carries foreign code.
-- tags: [attack.defense-evasion, attack.t1218.011]
-- references: [https://attack.mitre.org/techniques/T1218/011/]
-- false_positives: [None known]
-- attributes: {playbook: PB-114}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  c.`@timestamp`, c.Computer, p.CommandLine || ' -> ' || c.DestinationIp
FROM process_creation AS p
JOIN network_connection AS c
  ON p.ProcessGuid = c.ProcessGuid
  AND c.`@timestamp` BETWEEN p.`@timestamp` AND p.`@timestamp` + INTERVAL '1' MINUTE
WHERE REGEXP(p.CommandLine, '(?i)rundll32(\.exe)?"?\s*$')
  AND c.Initiated = 'true'
  AND NOT IS_PRIVATE_IP(c.DestinationIp);
