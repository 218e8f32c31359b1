"""A plant: devices publish readings over MQTT, 300 rules find what is wrong, and tell it to a
webhook, to Kafka and to a table of PostgreSQL, while servers are killed."""
