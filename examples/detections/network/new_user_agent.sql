-- @rule
-- title: A client has a user agent that it never had
-- severity: low
-- owner: network team
-- description: The first request of a client with the name of a script or a tool in thirty days.
-- tags: [attack.command-and-control, attack.t1071.001]
-- references: [https://attack.mitre.org/techniques/T1071/001/]
-- false_positives: [Developers]
-- attributes: {playbook: PB-209}
SET 'table.exec.state.ttl' = '30 d';
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, client, agent
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY client, agent ORDER BY PROCTIME()) AS n
  FROM proxy_log
  WHERE REGEXP(agent, '(?i)^(curl|wget|python|go-http-client|powershell|winhttp)')
)
WHERE n = 1;
