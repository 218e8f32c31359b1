-- @rule
-- title: A user gets in after many failures
-- severity: high
-- owner: cloud team
-- description: Five failed logins of a user, and then one that succeeds, all within a quarter of an hour.
-- tags: [attack.credential-access, attack.t1110.001]
-- references: [https://attack.mitre.org/techniques/T1110/001/]
-- false_positives: [Users who have forgotten their password]
-- attributes: {playbook: PB-310}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  known, who, CAST(failures AS STRING) || ' failures, then in from ' || COALESCE(address, '?')
FROM (
  SELECT who, eventTime, sourceIPAddress, JSON_VALUE(responseElements, '$.ConsoleLogin') AS outcome
  FROM trail WHERE eventName = 'ConsoleLogin'
) MATCH_RECOGNIZE (
  PARTITION BY who
  ORDER BY eventTime
  MEASURES COUNT(FAILED.who) AS failures, ENTERED.eventTime AS known, ENTERED.sourceIPAddress AS address
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (FAILED{5,} ENTERED) WITHIN INTERVAL '15' MINUTE
  DEFINE FAILED AS FAILED.outcome = 'Failure', ENTERED AS ENTERED.outcome = 'Success');
