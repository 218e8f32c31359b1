"""The boundary around connectors: what one raises, answers or never answers is a failure of the
jobs that use its table, and of no other.

`calls` makes each call, `answers` looks at what comes back, `source` and `sink` stand for what a
connector has opened."""
