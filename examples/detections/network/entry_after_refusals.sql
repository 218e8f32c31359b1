-- @rule
-- title: A share opens after several refusals
-- severity: high
-- owner: network team
-- description: An address that was refused at port 445 of a computer three times gets in there within ten minutes.
-- tags: [attack.lateral-movement, attack.t1021.002]
-- references: [https://attack.mitre.org/techniques/T1021/002/]
-- false_positives: [A user whose password has just changed]
-- attributes: {playbook: PB-207}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  known, src, dst || ' after ' || CAST(refusals AS STRING) || ' refusals'
FROM (SELECT * FROM flows WHERE port = 445) MATCH_RECOGNIZE (
  PARTITION BY src, dst
  ORDER BY ts
  MEASURES COUNT(DENIED.port) AS refusals, ENTERED.ts AS known
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (DENIED{3,} ENTERED) WITHIN INTERVAL '10' MINUTE
  DEFINE DENIED AS DENIED.state = 'refused', ENTERED AS ENTERED.state = 'established');
