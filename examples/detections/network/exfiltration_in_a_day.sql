-- @rule
-- title: A computer sends much to one address outside
-- severity: high
-- owner: network team
-- description: Within a day a computer has sent more than one gigabyte, and ten times what it got. It is told after the hour in which that is so.
-- tags: [attack.exfiltration, attack.t1041, attack.t1048]
-- references: [https://attack.mitre.org/techniques/T1041/, https://attack.mitre.org/techniques/T1048/]
-- false_positives: [Backups in a cloud, Video conferences]
-- attributes: {playbook: PB-205}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, src, dst || ': ' || CAST(SUM(bytes_out) AS STRING) || ' bytes'
FROM TABLE(CUMULATE(TABLE flows, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY))
WHERE NOT CIDR_MATCH(dst, '10.0.0.0/8')
GROUP BY src, dst, window_start, window_end
HAVING SUM(bytes_out) > 1000000000 AND SUM(bytes_out) > 10 * SUM(bytes_in);
