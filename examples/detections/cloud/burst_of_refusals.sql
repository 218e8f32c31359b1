-- @rule
-- title: A key tries what it may do
-- severity: medium
-- owner: cloud team
-- description: Five different calls of one user are refused, without a pause of more than two minutes. It is told when the burst is over.
-- tags: [attack.discovery, attack.t1580, attack.t1526]
-- references: [https://attack.mitre.org/techniques/T1580/, https://attack.mitre.org/techniques/T1526/]
-- false_positives: [A role that was just made smaller]
-- attributes: {playbook: PB-311}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, who, CAST(COUNT(DISTINCT eventName) AS STRING) || ' calls, such as ' || MIN(eventName)
FROM TABLE(SESSION(TABLE trail PARTITION BY who, DESCRIPTOR(eventTime), INTERVAL '2' MINUTE))
WHERE errorCode IN ('AccessDenied', 'UnauthorizedOperation', 'Client.UnauthorizedOperation')
GROUP BY who, window_start, window_end
HAVING COUNT(DISTINCT eventName) >= 5;
