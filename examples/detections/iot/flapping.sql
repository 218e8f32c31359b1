-- @rule
-- title: A device goes on and off
-- severity: low
-- owner: plant operators
-- description: Within ten minutes a device changes four times between online and offline. What only says the same again is no change.
-- tags: [iot.flapping]
-- references: [https://en.wikipedia.org/wiki/Route_flapping]
-- false_positives: [Work on the radio network]
-- attributes: {playbook: PB-506}
CREATE TEMPORARY VIEW states AS
SELECT ts, device, event, LAG(event) OVER (PARTITION BY device ORDER BY ts) AS event_before
FROM device_events
WHERE event IN ('online', 'offline');

INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, device, CAST(COUNT(*) AS STRING) || ' changes'
FROM TABLE(TUMBLE(TABLE states, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
WHERE event <> event_before
GROUP BY device, window_start, window_end
HAVING COUNT(*) >= 4;
