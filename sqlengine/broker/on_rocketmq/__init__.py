"""A broker whose topics of users and of commands are topics of RocketMQ (ADR 30).

`broker` asks for each topic whether it is here or there, `topics` knows those that are there,
`queue_log` is one of their shards, `writers` which epochs are in it, `records` makes messages of
records and back, `kept` is what the data folder knows of all that."""
