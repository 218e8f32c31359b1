-- @rule
-- title: One address tries many ports
-- severity: medium
-- owner: network team
-- description: Within a minute five ports of one target refuse a connection from the same address, or do not answer.
-- tags: [attack.discovery, attack.t1046]
-- references: [https://attack.mitre.org/techniques/T1046/]
-- false_positives: [Scanners for vulnerabilities, Monitoring]
-- attributes: {playbook: PB-206}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, src, dst || ': ' || LISTAGG(DISTINCT CAST(port AS STRING))
FROM TABLE(TUMBLE(TABLE flows, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
WHERE state IN ('refused', 'timeout') AND protocol = 'tcp'
GROUP BY src, dst, window_start, window_end
HAVING COUNT(DISTINCT port) >= 5;
