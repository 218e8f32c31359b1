-- @rule
-- title: Several devices of a site go offline together
-- severity: critical
-- owner: plant operators
-- description: Three devices of one site within five minutes. It may be the power or the line, or somebody who cuts them off.
-- tags: [attack.inhibit-response-function, attack.t0814]
-- references: [https://attack.mitre.org/techniques/T0814/]
-- false_positives: [Planned work at the site]
-- attributes: {playbook: PB-511}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  window_end, site, LISTAGG(DISTINCT device)
FROM TABLE(TUMBLE(
  DATA => (
    SELECT e.ts, e.device, d.site FROM device_events AS e
    JOIN devices FOR SYSTEM_TIME AS OF e.now AS d ON e.device = d.device
    WHERE e.event = 'offline'),
  TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '5' MINUTE))
GROUP BY site, window_start, window_end
HAVING COUNT(DISTINCT device) >= 3;
