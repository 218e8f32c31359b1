-- @rule
-- title: A device does not confirm a command
-- severity: high
-- owner: plant operators
-- description: A command went out, and within two minutes the device has not confirmed that very command.
-- tags: [attack.impair-process-control, attack.t0855]
-- references: [https://attack.mitre.org/techniques/T0855/]
-- false_positives: [Devices behind slow links]
-- attributes: {playbook: PB-508}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  known, device, command || ' of ' || CAST(sent AS STRING)
FROM (SELECT * FROM device_events WHERE command IS NOT NULL) MATCH_RECOGNIZE (
  PARTITION BY device, command
  ORDER BY ts
  MEASURES SENT.ts AS sent, MATCH_ROWTIME() AS known
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (SENT [^ANSWER]) WITHIN INTERVAL '2' MINUTE
  DEFINE SENT AS SENT.event = 'command', ANSWER AS ANSWER.event = 'confirmed');
