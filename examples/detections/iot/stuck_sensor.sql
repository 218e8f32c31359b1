-- @rule
-- title: A sensor says the same again and again
-- severity: low
-- owner: plant operators
-- description: Six readings or more within half an hour have exactly the same value, though the metric is one that always moves a little.
-- tags: [attack.impair-process-control, attack.t0856]
-- references: [https://attack.mitre.org/techniques/T0856/]
-- false_positives: [Sensors with coarse steps]
-- attributes: {playbook: PB-505}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, device, metric || ' stays at ' || CAST(MIN(reading) AS STRING)
FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '15' MINUTE, INTERVAL '30' MINUTE))
WHERE metric IN ('temperature', 'pressure', 'flow')
GROUP BY device, metric, window_start, window_end
HAVING COUNT(*) >= 6 AND MIN(reading) = MAX(reading);
