-- @rule
-- title: A trial payment, and then a large one
-- severity: high
-- owner: risk team
-- description: A card pays less than two, and directly behind that, within ten minutes and elsewhere, more than 500.
-- tags: [fraud.stolen-card]
-- references: [https://en.wikipedia.org/wiki/Carding_(fraud)]
-- false_positives: [A parking ticket before a visit to a shop]
-- attributes: {playbook: PB-408}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  known, card, CAST(trial AS STRING) || ' at ' || first_merchant || ', then ' || CAST(paid AS STRING) || ' at ' || second_merchant
FROM (SELECT * FROM payments WHERE kind = 'sale') MATCH_RECOGNIZE (
  PARTITION BY card
  ORDER BY ts
  MEASURES TRIAL.amount AS trial, BUY.amount AS paid, TRIAL.merchant AS first_merchant, BUY.merchant AS second_merchant,
    BUY.ts AS known
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (TRIAL BUY) WITHIN INTERVAL '10' MINUTE
  DEFINE
    TRIAL AS TRIAL.amount < 2 AND TRIAL.status = 'approved',
    BUY AS BUY.amount > 500 AND BUY.merchant <> TRIAL.merchant);
