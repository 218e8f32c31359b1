-- @rule
-- title: The three computers that send most
-- severity: informational
-- owner: network team
-- description: Of each hour those three that sent most to the outside, if it was more than 100 MB, for the morning's report.
-- tags: [attack.exfiltration, attack.t1030]
-- references: [https://attack.mitre.org/techniques/T1030/]
-- false_positives: [It is a report]
-- attributes: {playbook: PB-212}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, src, 'place ' || CAST(place AS STRING) || ': ' || CAST(total AS STRING) || ' bytes'
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS place
  FROM (
    SELECT src, window_start, window_end, SUM(bytes_out) AS total
    FROM TABLE(TUMBLE(TABLE flows, DESCRIPTOR(ts), INTERVAL '1' HOUR))
    WHERE NOT IS_PRIVATE_IP(dst)
    GROUP BY src, window_start, window_end
    HAVING SUM(bytes_out) > 100000000
  )
)
WHERE place <= 3;
