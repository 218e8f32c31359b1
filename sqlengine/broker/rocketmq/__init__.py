"""A client of RocketMQ over its remoting protocol, with the standard library alone.

`wire` makes requests and reads answers, `messages` does it with what is stored, `connection` has
many requests in flight, `client` knows which broker has which queue."""
