-- Logs of Windows (Sysmon, System, PowerShell), a topic for each kind, with the names that the events have.
CREATE TABLE process_creation (
  `@timestamp` TIMESTAMP(3),
  Computer STRING,
  `User` STRING,
  Image STRING,
  OriginalFileName STRING,
  CommandLine STRING,
  IntegrityLevel STRING,
  ProcessGuid STRING,
  ParentImage STRING,
  ParentCommandLine STRING,
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'process_creation', 'format' = 'json');

CREATE TABLE registry_set (
  `@timestamp` TIMESTAMP(3),
  Computer STRING,
  Image STRING,
  TargetObject STRING,
  Details STRING,
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'registry_set', 'format' = 'json');

CREATE TABLE system_log (
  `@timestamp` TIMESTAMP(3),
  Computer STRING,
  Provider_Name STRING,
  EventID INT,
  ServiceName STRING,
  ImagePath STRING,
  StartType STRING,
  AccountName STRING,
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'system', 'format' = 'json');

CREATE TABLE ps_script (
  `@timestamp` TIMESTAMP(3),
  Computer STRING,
  EventID INT,
  Path STRING,
  ScriptBlockText STRING,
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'ps_script', 'format' = 'json');

CREATE TABLE network_connection (
  `@timestamp` TIMESTAMP(3),
  Computer STRING,
  Image STRING,
  ProcessGuid STRING,
  Initiated STRING,
  DestinationIp STRING,
  DestinationHostname STRING,
  DestinationPort STRING,
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'network_connection', 'format' = 'json');

CREATE TABLE file_event (
  `@timestamp` TIMESTAMP(3),
  Computer STRING,
  Image STRING,
  ProcessGuid STRING,
  TargetFilename STRING,
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '10' SECOND
) WITH ('connector' = 'topic', 'topic' = 'file_event', 'format' = 'json');
