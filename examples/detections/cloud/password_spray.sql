-- @rule
-- title: One address tries the passwords of many users
-- severity: high
-- owner: cloud team
-- description: Five users fail to log in at the console from the same address within ten minutes.
-- tags: [attack.credential-access, attack.t1110.003]
-- references: [https://attack.mitre.org/techniques/T1110/003/]
-- false_positives: [An office behind one address, on the day on which passwords expire]
-- attributes: {playbook: PB-309}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, sourceIPAddress, LISTAGG(DISTINCT who)
FROM TABLE(HOP(TABLE trail, DESCRIPTOR(eventTime), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))
WHERE eventName = 'ConsoleLogin' AND JSON_VALUE(responseElements, '$.ConsoleLogin') = 'Failure'
GROUP BY sourceIPAddress, window_start, window_end
HAVING COUNT(DISTINCT who) >= 5;
