"""What programs share that run `sql serve` among real servers, and kill these: the server on a small
machine, the kills, what processes took, and what Kafka has."""
