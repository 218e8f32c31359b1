-- @rule
-- title: A name of the threat list is asked for
-- severity: high
-- owner: network team
-- description: A client resolves a name, or one below it, that the list of bad names has. The list is a table, and changes while the rule runs.
-- tags: [attack.command-and-control, attack.t1071.004]
-- references: [https://attack.mitre.org/techniques/T1071/004/]
-- false_positives: [Somebody analyses the threat]
-- attributes: {playbook: PB-201}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  d.ts, d.client, d.name || ' (' || COALESCE(b.campaign, 'no campaign') || ')'
FROM dns_answers AS d
JOIN bad_names FOR SYSTEM_TIME AS OF d.now AS b
  ON b.name = REGEXP_EXTRACT(LOWER(d.name), '([^.]+\.[^.]+)\.?$', 1);
