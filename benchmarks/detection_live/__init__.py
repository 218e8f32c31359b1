"""A detection: events come over syslog and over Kafka, 1,414 rules look at them, and alerts go to
Kafka and to a webhook, while servers are killed."""
