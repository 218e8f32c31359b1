-- @rule
-- title: A device has older firmware than before
-- severity: high
-- owner: plant operators
-- description: The version that a device tells is lower than the one it told before, so that faults are back that were mended.
-- tags: [attack.persistence, attack.t0857]
-- references: [https://attack.mitre.org/techniques/T0857/]
-- false_positives: [A rollback after a failed update]
-- attributes: {playbook: PB-509}
CREATE TEMPORARY VIEW versions AS
SELECT ts, device, firmware, LAG(firmware) OVER (PARTITION BY device ORDER BY ts) AS firmware_before
FROM device_events
WHERE REGEXP(firmware, '^\d+\.\d+\.\d+$');

INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, device, firmware_before || ' -> ' || firmware
FROM versions
WHERE CAST(SPLIT_INDEX(firmware, '.', 0) AS INT) * 1000000 + CAST(SPLIT_INDEX(firmware, '.', 1) AS INT) * 1000
    + CAST(SPLIT_INDEX(firmware, '.', 2) AS INT)
  < CAST(SPLIT_INDEX(firmware_before, '.', 0) AS INT) * 1000000 + CAST(SPLIT_INDEX(firmware_before, '.', 1) AS INT) * 1000
    + CAST(SPLIT_INDEX(firmware_before, '.', 2) AS INT);
