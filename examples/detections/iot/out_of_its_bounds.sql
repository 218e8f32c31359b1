-- @rule
-- title: A reading is out of the bounds of its device
-- severity: medium
-- owner: plant operators
-- description: Each device has bounds of its own, which stand in a table and may be changed while the rule runs. A device without bounds has none.
-- tags: [iot.threshold]
-- references: [https://en.wikipedia.org/wiki/Control_chart]
-- false_positives: [A device that is being moved]
-- attributes: {playbook: PB-503}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  r.ts, r.device, CAST(r.reading AS STRING) || ' is not between ' || CAST(d.low AS STRING) || ' and ' || CAST(d.high AS STRING)
FROM readings AS r
JOIN devices FOR SYSTEM_TIME AS OF r.now AS d ON r.device = d.device
WHERE r.reading < d.low OR r.reading > d.high;
