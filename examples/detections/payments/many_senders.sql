-- @rule
-- title: Many strangers pay into one account
-- severity: medium
-- owner: risk team
-- description: Within a day five accounts send money to one that has been open for less than thirty days.
-- tags: [fraud.mule]
-- references: [https://en.wikipedia.org/wiki/Money_mule]
-- false_positives: [A collection for a present]
-- attributes: {playbook: PB-406}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, receiver, LISTAGG(DISTINCT sender)
FROM TABLE(CUMULATE(
  DATA => (
    SELECT t.ts, t.sender, t.receiver, t.amount FROM transfers AS t
    JOIN accounts FOR SYSTEM_TIME AS OF t.now AS a ON t.receiver = a.account
    WHERE a.opened > t.ts - INTERVAL '30' DAY),
  TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '6' HOUR, SIZE => INTERVAL '1' DAY))
GROUP BY receiver, window_start, window_end
HAVING COUNT(DISTINCT sender) >= 5;
