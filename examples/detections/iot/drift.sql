-- @rule
-- title: A sensor has drifted
-- severity: low
-- owner: plant operators
-- description: The mean of an hour, of at least three readings, is more than a tenth away from the value that the device is adjusted to.
-- tags: [iot.drift]
-- references: [https://en.wikipedia.org/wiki/Calibration]
-- false_positives: [The device measures something else now]
-- attributes: {playbook: PB-504}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, device, 'mean ' || CAST(ROUND(AVG(reading), 2) AS STRING) || ', adjusted to ' || CAST(nominal AS STRING)
FROM TABLE(TUMBLE(
  DATA => (
    SELECT r.ts, r.device, r.reading, d.nominal FROM readings AS r
    JOIN devices FOR SYSTEM_TIME AS OF r.now AS d ON r.device = d.device),
  TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR))
GROUP BY device, nominal, window_start, window_end
HAVING COUNT(*) >= 3 AND ABS(AVG(reading) - nominal) > 0.1 * ABS(nominal);
