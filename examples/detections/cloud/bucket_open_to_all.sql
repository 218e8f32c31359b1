-- @rule
-- title: A bucket is opened to everybody
-- severity: high
-- owner: cloud team
-- description: Its list of rights gets a group that all people are in, or what forbids public access is taken away.
-- tags: [attack.collection, attack.t1530]
-- references: [https://attack.mitre.org/techniques/T1530/]
-- false_positives: [Web sites that are kept in a bucket]
-- attributes: {playbook: PB-306}
INSERT INTO alerts
SELECT RULE_NAME(), RULE_TITLE(), RULE_SEVERITY(), RULE_OWNER(), RULE_TAGS(), RULE_ATTRIBUTE('playbook'),
  eventTime, JSON_VALUE(requestParameters, '$.bucketName'), eventName || ' by ' || who
FROM trail
WHERE eventSource = 's3.amazonaws.com'
  AND errorCode IS NULL
  AND ((eventName = 'PutBucketAcl' AND REGEXP(requestParameters, '(AllUsers|AuthenticatedUsers|public-read)'))
    OR eventName = 'DeleteBucketPublicAccessBlock');
