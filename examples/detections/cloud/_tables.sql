-- The trail of a cloud: who called what. The names are those of CloudTrail.
CREATE TABLE trail (
  eventTime TIMESTAMP(3),
  eventSource STRING,
  eventName STRING,
  awsRegion STRING,
  sourceIPAddress STRING,
  userAgent STRING,
  errorCode STRING,
  userIdentity ROW<type STRING, userName STRING, accountId STRING, accessKeyId STRING>,
  additionalEventData ROW<MFAUsed STRING>,
  requestParameters STRING,      -- JSON, as it came
  responseElements STRING,       -- JSON, as it came
  who AS COALESCE(userIdentity.userName, userIdentity.type),
  WATERMARK FOR eventTime AS eventTime - INTERVAL '1' MINUTE
) WITH ('connector' = 'topic', 'topic' = 'trail', 'format' = 'json');
