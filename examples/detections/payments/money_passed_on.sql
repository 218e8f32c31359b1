-- @rule
-- title: Money goes on as soon as it has come
-- severity: high
-- owner: risk team
-- description: An account gets more than 1,000, and within an hour sends nine tenths of it or more to somebody else.
-- tags: [fraud.mule]
-- references: [https://en.wikipedia.org/wiki/Money_mule]
-- false_positives: [Accounts of companies that collect]
-- attributes: {playbook: PB-405}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  o.ts, o.sender, CAST(i.amount AS STRING) || ' from ' || i.sender || ', ' || CAST(o.amount AS STRING) || ' to ' || o.receiver
FROM transfers AS i
JOIN transfers AS o
  ON i.receiver = o.sender
  AND o.ts BETWEEN i.ts AND i.ts + INTERVAL '1' HOUR
WHERE i.amount > 1000
  AND o.amount BETWEEN 0.9 * i.amount AND i.amount
  AND o.receiver <> i.sender;
