-- @rule
-- title: A battery is nearly empty
-- severity: informational
-- owner: plant operators
-- description: The first time in a week that a device says that it has less than 15 percent. A reminder comes when it still says so a week later.
-- tags: [iot.maintenance]
-- references: [https://en.wikipedia.org/wiki/Predictive_maintenance]
-- false_positives: [Batteries that freeze at night]
-- attributes: {playbook: PB-507}
SET 'table.exec.state.ttl' = '7 d';
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, device, CAST(battery AS STRING) || ' percent'
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY device ORDER BY PROCTIME()) AS n
  FROM device_events
  WHERE battery < 15
)
WHERE n = 1;
