-- @rule
-- title: A client calls an address like a clock
-- severity: medium
-- owner: network team
-- description: The pauses between six connections to one outside address within an hour differ by less than two seconds.
-- tags: [attack.command-and-control, attack.t1071, attack.t1573]
-- references: [https://attack.mitre.org/techniques/T1071/, https://attack.mitre.org/techniques/T1573/]
-- false_positives: [Clients that look for updates, Monitoring]
-- attributes: {playbook: PB-204}
CREATE TEMPORARY VIEW pauses AS
SELECT src, dst, port, ts, TIMESTAMPDIFF(SECOND, LAG(ts) OVER (PARTITION BY src, dst, port ORDER BY ts), ts) AS pause
FROM flows
WHERE state = 'established' AND NOT IS_PRIVATE_IP(dst);

INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, src, dst || ':' || CAST(port AS STRING) || ' each ' || CAST(AVG(pause) AS STRING) || ' seconds'
FROM TABLE(TUMBLE(TABLE pauses, DESCRIPTOR(ts), INTERVAL '1' HOUR))
WHERE pause >= 10
GROUP BY src, dst, port, window_start, window_end
HAVING COUNT(*) >= 5 AND MAX(pause) - MIN(pause) < 2;
