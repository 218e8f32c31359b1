-- @rule
-- title: A door stands open
-- severity: medium
-- owner: plant operators
-- description: A door was opened and has not been closed within five minutes.
-- tags: [iot.sequence]
-- references: [https://en.wikipedia.org/wiki/Access_control]
-- false_positives: [Deliveries]
-- attributes: {playbook: PB-510}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  known, device, 'open since ' || CAST(since AS STRING)
FROM device_events MATCH_RECOGNIZE (
  PARTITION BY device
  ORDER BY ts
  MEASURES OPENED.ts AS since, MATCH_ROWTIME() AS known
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (OPENED [^SHUT]) WITHIN INTERVAL '5' MINUTE
  DEFINE OPENED AS OPENED.event = 'open', SHUT AS SHUT.event = 'closed');
