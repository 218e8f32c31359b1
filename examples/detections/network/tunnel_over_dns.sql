-- @rule
-- title: Data leaves in names of DNS
-- severity: high
-- owner: network team
-- description: Below one domain a client asks for so many and so long names within a minute that they carry data.
-- tags: [attack.exfiltration, attack.t1048.003, attack.t1071.004]
-- references: [https://attack.mitre.org/techniques/T1048/003/, https://attack.mitre.org/techniques/T1071/004/]
-- false_positives: [Reputation services that ask by hash]
-- attributes: {playbook: PB-203}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, client, domain || ': ' || CAST(SUM(size) AS STRING) || ' characters'
FROM (
  SELECT client, REGEXP_EXTRACT(LOWER(name), '([^.]+\.[^.]+)\.?$', 1) AS domain, CHAR_LENGTH(name) AS size, window_start, window_end
  FROM TABLE(HOP(TABLE dns_answers, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE))
  WHERE kind IN ('TXT', 'NULL', 'CNAME') AND CHAR_LENGTH(name) >= 60
)
GROUP BY client, domain, window_start, window_end
HAVING SUM(size) >= 180;
