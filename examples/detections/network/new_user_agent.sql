-- @rule
-- title: A client has a user agent that it never had
-- severity: low
-- owner: network team
-- description: The first request of a client with the name of a script or a tool in thirty days.
-- tags: [attack.command-and-control, attack.t1071.001]
-- references: [https://attack.mitre.org/techniques/T1071/001/]
-- false_positives: [Developers]
-- attributes: {playbook: PB-209}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, client, agent
FROM proxy_log
WHERE REGEXP(agent, '(?i)^(curl|wget|python|go-http-client|powershell|winhttp)')
  AND NEW_TERM(client, agent, INTERVAL '30' DAY);
