-- @rule
-- title: A device has fallen silent
-- severity: medium
-- owner: plant operators
-- description: No reading has come for ten minutes from a device that gave some. It is told once, when the others' time has passed these ten minutes.
-- tags: [attack.inhibit-response-function, attack.t0814]
-- references: [https://attack.mitre.org/techniques/T0814/]
-- false_positives: [Devices that are switched off over night]
-- attributes: {playbook: PB-502}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  known, device, 'last reading at ' || CAST(last_at AS STRING)
FROM readings MATCH_RECOGNIZE (
  PARTITION BY device
  ORDER BY ts
  MEASURES LAST_ONE.ts AS last_at, MATCH_ROWTIME() AS known
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (LAST_ONE [^ANOTHER]) WITHIN INTERVAL '10' MINUTE
  DEFINE LAST_ONE AS TRUE, ANOTHER AS TRUE);
