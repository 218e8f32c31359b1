-- Detection over time: a program that calls the same outside address again and again.
CREATE TABLE traffic (
  ts TIMESTAMP(3),
  host STRING,
  event_type STRING,
  image STRING,
  dst_ip STRING,
  dst_port INT,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');

CREATE VIEW outside AS
SELECT * FROM traffic
WHERE event_type = 'network'
  AND NOT CIDR_MATCH(dst_ip, '10.0.0.0/8')
  AND dst_port NOT IN (53, 123);

SELECT window_start, host, image, dst_ip, calls
FROM (
  SELECT window_start, window_end, host, image, dst_ip, COUNT(*) AS calls
  FROM TABLE(TUMBLE(TABLE outside, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
  GROUP BY window_start, window_end, host, image, dst_ip
)
WHERE calls > 3;
