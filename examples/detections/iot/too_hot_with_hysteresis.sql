-- @rule
-- title: A device has become too hot
-- severity: high
-- owner: plant operators
-- description: A temperature rises to 80 degrees. The next alert needs that it has been below 70 between, so that a value at the threshold gives one alert and not a hundred.
-- tags: [iot.threshold]
-- references: [https://en.wikipedia.org/wiki/Hysteresis]
-- false_positives: [Tests of the sensor]
-- attributes: {playbook: PB-501}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, device, CAST(degrees AS STRING) || ' degrees, below 70 at ' || CAST(cool AS STRING)
FROM (SELECT * FROM readings WHERE metric = 'temperature') MATCH_RECOGNIZE (
  PARTITION BY device
  ORDER BY ts
  MEASURES HOT.ts AS ts, HOT.reading AS degrees, COOL.ts AS cool
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (COOL BETWEEN_BOTH* HOT) WITHIN INTERVAL '1' DAY
  DEFINE
    COOL AS COOL.reading < 70,
    BETWEEN_BOTH AS BETWEEN_BOTH.reading >= 70 AND BETWEEN_BOTH.reading < 80,
    HOT AS HOT.reading >= 80);
