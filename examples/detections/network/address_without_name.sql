-- @rule
-- title: A connection to an address that nobody resolved
-- severity: low
-- owner: network team
-- description: A client opens a web connection to an outside address that no answer of DNS has given it within the hour before.
-- tags: [attack.command-and-control, attack.t1071.001]
-- references: [https://attack.mitre.org/techniques/T1071/001/]
-- false_positives: [Names that the client has kept longer, Peer-to-peer programs]
-- attributes: {playbook: PB-208}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  f.ts, f.src, f.dst || ':' || CAST(f.port AS STRING)
FROM (SELECT * FROM flows WHERE port IN (80, 443) AND NOT IS_PRIVATE_IP(dst)) AS f
LEFT JOIN dns_answers AS d
  ON f.src = d.client AND f.dst = d.address
  AND d.ts BETWEEN f.ts - INTERVAL '1' HOUR AND f.ts
WHERE d.client IS NULL;
