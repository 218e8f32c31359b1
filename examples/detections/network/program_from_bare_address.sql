-- @rule
-- title: A program is fetched from an address without a name
-- severity: medium
-- owner: network team
-- description: The proxy lets through a file that can be run, from a host that is given by its number.
-- tags: [attack.command-and-control, attack.t1105]
-- references: [https://attack.mitre.org/techniques/T1105/]
-- false_positives: [Devices in the network that are updated]
-- attributes: {playbook: PB-211}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  ts, client, host || path
FROM proxy_log
WHERE REGEXP(host, '^\d{1,3}(\.\d{1,3}){3}$')
  AND REGEXP(path, '(?i)\.(exe|dll|ps1|hta|jar|sh|elf)(\?|$)')
  AND status = 200
  AND NOT IS_PRIVATE_IP(host);
