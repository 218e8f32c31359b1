-- @rule
-- title: A card is in two places at once
-- severity: high
-- owner: risk team
-- description: Between two payments at a till the card would have travelled faster than 900 kilometres an hour, and further than 100 kilometres.
-- tags: [fraud.stolen-card]
-- references: [https://en.wikipedia.org/wiki/Haversine_formula]
-- false_positives: [Tills that report the place of their head office]
-- attributes: {playbook: PB-403}
CREATE TEMPORARY VIEW journeys AS
SELECT ts, card, country, before,
  12742 * ASIN(SQRT(POWER(SIN(RADIANS(latitude - latitude_before) / 2), 2)
    + COS(RADIANS(latitude)) * COS(RADIANS(latitude_before)) * POWER(SIN(RADIANS(longitude - longitude_before) / 2), 2))) AS km
FROM (
  SELECT ts, card, country, latitude, longitude, LAG(ts) OVER w AS before,
    LAG(latitude) OVER w AS latitude_before, LAG(longitude) OVER w AS longitude_before
  FROM payments
  WHERE latitude IS NOT NULL
  WINDOW w AS (PARTITION BY card ORDER BY ts)
);

INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, card, CAST(CAST(km AS INT) AS STRING) || ' km since ' || CAST(before AS STRING)
FROM journeys
WHERE km > 100 AND km * 3600 > 900 * TIMESTAMPDIFF(SECOND, before, ts);
